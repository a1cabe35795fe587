"""The server's side of explanations: a worker process that holds torch, started when it is needed and again if it dies.

FAISS and torch crash in one process on macOS, and importing torch would triple a server's memory.
"""

import asyncio
import logging
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from gnn_encoder.serving import pipes
from gnn_encoder.serving.problems import Problem, busy
from gnn_encoder.serving.settings import Limits

log = logging.getLogger(__name__)
WORKER = (sys.executable, "-m", "gnn_encoder.serving.explain_worker")


class WorkerDied(Exception):
    """The worker has ended, or it answered what is no answer."""


class Explainer:
    """Asks the worker, one request after the other.

    Args:
        root: the project's root.
        limits: how many requests may wait, and how long a start and an answer may take.
        command: starts the worker.
        started: called whenever a worker is started.
    """

    def __init__(
        self,
        root: Path,
        limits: Limits,
        *,
        command: Sequence[str] = WORKER,
        started: Callable[[], None] = lambda: None,
    ) -> None:
        self._root, self._limits, self._command, self._started = root, limits, command, started
        self._process: Process | None = None
        self._warm: set[str] = set()
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._numbers = count()

    @property
    def pid(self) -> int | None:
        """Process id of the worker, or None while there is none."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def open(self, system: str) -> None:
        """Start the worker and have it read what it needs for a system, so that the first answer comes soon."""
        await self._in_turn(system, {})

    async def explain(self, system: str, row: int, pid: str) -> dict[str, Any]:
        """What explaining.py finds out about a passage.

        Raises:
            Problem: too many wait, the worker failed twice or took too long, or it cannot explain this.
        """
        return await self._in_turn(system, {"row": row, "pid": pid})

    async def retire(self) -> None:
        """End the worker when it is done; the next request starts one that reads what is there then."""
        async with self._turn:
            await self._end()

    async def close(self) -> None:
        """End the worker now."""
        await self._end()

    async def _in_turn(self, system: str, fields: dict[str, Any]) -> dict[str, Any]:
        if self._waiting >= self._limits.explanations:
            raise busy(f"{self._waiting} explanations wait already")
        self._waiting += 1
        try:
            async with self._turn:
                return await self._answer(system, fields)
        finally:
            self._waiting -= 1

    async def _answer(self, system: str, fields: dict[str, Any]) -> dict[str, Any]:
        for attempt in (1, 2):
            try:
                if system not in self._warm or self.pid is None:
                    await self._ask({"system": system}, self._limits.start_seconds)
                    self._warm.add(system)
                return await self._ask({"system": system, **fields}, self._limits.explain_seconds) if fields else {}
            except WorkerDied as error:
                log.warning("the process that explains died (%s), attempt %d of 2", error, attempt)
                await self._end()
            except TimeoutError:
                await self._end()
                raise Problem(504, "explanation-timeout", "the explanation took too long and was given up") from None
        raise Problem(503, "no-explanation", "the process that explains dies; the server's log says why", retry=True)

    async def _ask(self, fields: dict[str, Any], seconds: float) -> dict[str, Any]:
        """One message to the worker, and its answer."""
        number = next(self._numbers)
        async with asyncio.timeout(seconds):
            answer = await self._exchange(pipes.encode({"id": number, **fields}))
        if answer.get("id") != number:
            raise WorkerDied("an answer to another request")
        if "error" in answer:
            raise Problem(409, "not-explained", str(answer["error"]))
        found: dict[str, Any] = answer["found"]
        return found

    async def _exchange(self, line: bytes) -> dict[str, Any]:
        try:
            process = await self._running()
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(line)
            await process.stdin.drain()
            return pipes.decode(await process.stdout.readline())
        except (OSError, ValueError) as error:  # a broken pipe, the end of the output, or what is no message
            raise WorkerDied(str(error)) from error

    async def _running(self) -> Process:
        if self.pid is None or self._process is None:
            await self._end()
            self._process = await asyncio.create_subprocess_exec(
                *self._command, cwd=self._root, stdin=PIPE, stdout=PIPE, limit=pipes.LONGEST
            )
            self._started()
        return self._process

    async def _end(self) -> None:
        process, self._process = self._process, None
        self._warm.clear()
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
