"""Micro-batches: one thread does the work of all requests that wait, together, and no more may wait than agreed."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from gnn_encoder.serving.problems import busy

Work = TypeVar("Work")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True)
class _Waiting(Generic[Work, Outcome]):
    work: Work
    future: "asyncio.Future[Outcome]"


class MicroBatches(Generic[Work, Outcome]):
    """A bounded queue and the thread that empties it.

    The thread never waits for a batch to fill: it takes what has come while it was at work. So a lone request is
    answered at once, and under load batches grow by themselves.

    Args:
        do: does a batch; of each work it gives the outcome or the exception that its request gets.
        waiting: works that may wait; one over that is refused.
        batch: works that are taken together.
        observe: told the size of each batch.
    """

    def __init__(
        self,
        do: Callable[[Sequence[Work]], Sequence[Outcome | Exception]],
        *,
        waiting: int,
        batch: int,
        observe: Callable[[int], None] = lambda size: None,
    ) -> None:
        self._do, self._most, self._batch, self._observe = do, waiting, batch, observe
        self._queue: deque[_Waiting[Work, Outcome]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="encoder", daemon=True)

    @property
    def size(self) -> int:
        """Works that wait."""
        return len(self._queue)

    @property
    def alive(self) -> bool:
        """Whether the thread is at work."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Do what waits, and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()

    async def submit(self, work: Work) -> Outcome:
        """Queue a piece of work and wait for its outcome.

        Raises:
            Problem: the queue is full; or the exception of the work.
        """
        waiting = _Waiting[Work, Outcome](work, asyncio.get_running_loop().create_future())
        with self._changed:
            if self._closed or len(self._queue) >= self._most:
                raise busy(f"{len(self._queue)} queries wait already, of {self._most} that may")
            self._queue.append(waiting)
            self._changed.notify()
        return await waiting.future

    def _run(self) -> None:
        while batch := self._take():
            outcomes = self._outcomes([one.work for one in batch])
            for loop in {one.future.get_loop() for one in batch}:
                pairs = [pair for pair in zip(batch, outcomes, strict=True) if pair[0].future.get_loop() is loop]
                loop.call_soon_threadsafe(_deliver, pairs)

    def _take(self) -> list[_Waiting[Work, Outcome]]:
        """The next batch, or nothing at the end. Requests that were given up meanwhile are left out."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed)
                if not self._queue:
                    return []
                taken = [self._queue.popleft() for _ in range(min(self._batch, len(self._queue)))]
                batch = [one for one in taken if not one.future.cancelled()]
            if batch:
                self._observe(len(batch))
                return batch

    def _outcomes(self, works: Sequence[Work]) -> Sequence[Outcome | Exception]:
        try:
            return self._do(works)
        except Exception as error:  # a request must get an answer whatever happens, and the thread must go on
            return [error] * len(works)


def _deliver(pairs: list[tuple[_Waiting[Work, Outcome], Outcome | Exception]]) -> None:
    for one, outcome in pairs:
        if one.future.cancelled():
            continue
        if isinstance(outcome, Exception):
            one.future.set_exception(outcome)
        else:
            one.future.set_result(outcome)
