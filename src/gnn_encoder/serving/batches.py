"""Batches of queries: what comes while a thread is at work is done together next, and no more may wait than agreed."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

Work = TypeVar("Work")
Outcome = TypeVar("Outcome")


class QueueFull(Exception):
    """As much work waits as may."""


class Batches(Generic[Work, Outcome]):
    """A bounded queue that an executor empties. It belongs to one event loop.

    It never waits for a batch to fill: a lone piece of work is done at once, and under load batches grow by themselves.

    Args:
        do: does a batch, and gives an outcome for each work; its exception reaches all who wait for the batch.
        executor: runs `do`.
        waiting: works that may wait; one over that is refused.
        batch: works that are taken together.
    """

    def __init__(
        self, do: Callable[[Sequence[Work]], Sequence[Outcome]], executor: Executor, *, waiting: int, batch: int
    ) -> None:
        self._do, self._executor, self._most, self._batch = do, executor, waiting, batch
        self._waiting: deque[tuple[Work, asyncio.Future[Outcome]]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def submit(self, work: Work) -> Outcome:
        """Queue a piece of work and wait for its outcome.

        Raises:
            QueueFull: too many wait.
        """
        if len(self._waiting) >= self._most:
            raise QueueFull
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((work, future))
        if self._task is None:
            self._task = asyncio.create_task(self._empty())
        return await future

    async def _empty(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            taken = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
            batch = [(work, future) for work, future in taken if not future.done()]  # whoever gave up has cancelled it
            try:
                outcomes = await loop.run_in_executor(self._executor, self._do, [work for work, _ in batch])
            except Exception as error:  # every request must get an answer, and the queue must go on
                for future in (future for _, future in batch if not future.done()):
                    future.set_exception(error)
                continue
            for (_, future), outcome in zip(batch, outcomes, strict=True):
                if not future.done():
                    future.set_result(outcome)
        self._task = None
