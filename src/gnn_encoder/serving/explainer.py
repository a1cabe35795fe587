"""The server's side of explanations: a process that holds torch, started when it is needed and again if it dies.

FAISS and torch crash in one process on macOS, and importing torch would triple a server's memory.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence

from fastapi import HTTPException

COMMAND = (sys.executable, "-m", "gnn_encoder.serving.explaining")
SECONDS = 600.0  # that an answer may take; the first one waits until the graph is read
WAITING = 8  # questions that may wait
OFFLINE = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


class Explainer:
    """Asks the process that explains, one question after the other; both are lines of JSON.

    Args:
        command: starts the process.
        seconds: that an answer may take.
    """

    def __init__(self, command: Sequence[str] = COMMAND, seconds: float = SECONDS) -> None:
        self._command, self._seconds = command, seconds
        self._process: Process | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def explain(self, system: str, pid: str) -> bytes:
        """What explaining.py tells of a passage, as JSON.

        Raises:
            HTTPException: too many wait, the process died or took too long, or it cannot explain this.
        """
        if self._waiting >= WAITING:
            raise HTTPException(503, f"{self._waiting} explanations wait already: try again", {"Retry-After": "5"})
        self._waiting += 1
        try:
            async with self._turn:
                return await self._ask(json.dumps([system, pid]).encode())
        finally:
            self._waiting -= 1

    async def retire(self) -> None:
        """End the process when it is done; the next question starts one that reads what is there then."""
        async with self._turn:
            await self.close()

    async def close(self) -> None:
        """End the process now."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

    async def _ask(self, question: bytes) -> bytes:
        try:
            answer = await asyncio.wait_for(self._answer(question), self._seconds)
        except BaseException as error:  # also a request that is given up: its answer must not be the next one's
            await self.close()
            if not isinstance(error, (OSError, EOFError)):  # asyncio's TimeoutError is an OSError
                raise
            told = "the process that explains died or took too long: try again; the server's log may say why"
            raise HTTPException(503, told, {"Retry-After": "5"}) from error
        if b'"error"' in answer[:10]:
            raise HTTPException(409, json.loads(answer)["error"])
        return answer

    async def _answer(self, question: bytes) -> bytes:
        if self._process is None or self._process.returncode is not None:
            # A session of its own: Ctrl-C is for the server, which ends the process.
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=PIPE, stdout=PIPE, limit=2**24, env=os.environ | OFFLINE, start_new_session=True
            )
        process = self._process
        assert process.stdin is not None and process.stdout is not None, "both are pipes"
        process.stdin.write(question + b"\n")
        await process.stdin.drain()
        answer = await process.stdout.readline()
        if not answer:
            raise EOFError
        return answer
