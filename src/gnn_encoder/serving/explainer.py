"""The server's side of explanations: a process that holds torch, started when it is needed and again if it dies.

FAISS and torch crash in one process on macOS, and importing torch would triple a server's memory.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from gnn_encoder.core.errors import UserError
from gnn_encoder.serving.problems import Problem, busy
from gnn_encoder.serving.settings import Limits

log = logging.getLogger(__name__)
SPAWN = get_context("spawn")
Question = tuple[Any, ...]  # a system, to open it; with a row and a pid, to explain that passage


class Explainer:
    """Asks the process that explains, one question after the other.

    Args:
        limits: how many questions may wait, and how long a start and an answer may take.
        started: called whenever a process is started.
        target: what the process runs.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        started: Callable[[], None] = lambda: None,
        target: "Callable[[Connection[Any, Any]], None] | None" = None,
    ) -> None:
        self._limits, self._started, self._target = limits, started, target or answer_questions
        self._process: Any = None
        self._connection: Any = None
        self._open: set[str] = set()
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._closed = False

    async def open(self, system: str) -> None:
        """Have the process read what it needs for a system, so that the first answer comes soon."""
        await self._in_turn(system)

    async def explain(self, system: str, row: int, pid: str) -> dict[str, Any]:
        """What explaining.py finds out about a passage.

        Raises:
            Problem: too many wait, the process died twice or took too long, or it cannot explain this.
        """
        return await self._in_turn(system, row, pid)

    async def retire(self) -> None:
        """End the process when it is done; the next question starts one that reads what is there then."""
        async with self._turn:
            self._end()

    def close(self) -> None:
        """End the process now, and start no other."""
        self._closed = True
        self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        self._open.clear()
        if process is not None:
            process.kill()
            process.join()

    async def _in_turn(self, system: str, *passage: Any) -> dict[str, Any]:
        if self._waiting >= self._limits.explanations:
            raise busy(f"{self._waiting} explanations wait already")
        self._waiting += 1
        try:
            async with self._turn:
                return await asyncio.to_thread(self._answer, system, passage)
        finally:
            self._waiting -= 1

    def _answer(self, system: str, passage: Question) -> dict[str, Any]:
        for attempt in (1, 2):
            try:
                if system not in self._open:
                    self._ask((system,), self._limits.start_seconds)
                    self._open.add(system)
                return self._ask((system, *passage), self._limits.explain_seconds)
            except TimeoutError:
                self._end()
                raise Problem(504, "explanation-timeout", "the explanation took too long and was given up") from None
            except (OSError, EOFError) as error:
                log.warning("the process that explains died (%s), attempt %d of 2", error, attempt)
                self._end()
        raise Problem(503, "no-explanation", "the process that explains dies; the server's log says why", retry=True)

    def _ask(self, question: Question, seconds: float) -> dict[str, Any]:
        if self._closed:
            raise EOFError("the server ends")
        if self._process is None:
            self._connection, other = SPAWN.Pipe()
            self._process = SPAWN.Process(target=self._target, args=(other,), daemon=True)
            self._process.start()
            other.close()  # so that the end of the process is the end of the connection
            self._started()
        self._connection.send(question)
        if not self._connection.poll(seconds):
            raise TimeoutError
        found, error = self._connection.recv()
        if error is not None:
            raise Problem(409, "not-explained", error)
        answer: dict[str, Any] = found
        return answer


def answer_questions(questions: "Connection[Any, Any]") -> None:
    """What the process does, in the project's root, until the server closes the connection or ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends it
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

    from gnn_encoder.serving.explaining import explain

    while True:
        try:
            question = questions.recv()
        except EOFError:
            return
        try:
            questions.send((explain(*question), None))
        except UserError as error:
            questions.send((None, str(error)))
