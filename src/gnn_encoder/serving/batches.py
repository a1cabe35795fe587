"""Micro-batches: one thread does the work of all requests that wait, together, and no more may wait than agreed."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from gnn_encoder.serving.problems import busy


class Sized(Protocol):
    """Work of some size."""

    @property
    def size(self) -> int:
        """Texts of it."""


Work = TypeVar("Work", bound=Sized)
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
        waiting: texts that may wait; a request over that is refused.
        batch: texts that are taken together. Work that has more is done alone.
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
        self._size = 0
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="encoder", daemon=True)

    @property
    def size(self) -> int:
        """Texts that wait."""
        return self._size

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

    async def submit(self, works: Sequence[Work]) -> list[Outcome]:
        """Queue all of `works` or none, and wait for their outcomes.

        Raises:
            Problem: the queue is full; or the exception of the first work that failed.
        """
        loop = asyncio.get_running_loop()
        waiting = [_Waiting(work, loop.create_future()) for work in works]
        size = sum(work.size for work in works)
        with self._changed:
            if self._closed or self._size + size > self._most:
                raise busy(f"{self._size} queries wait already, of {self._most} that may")
            self._queue.extend(waiting)
            self._size += size
            self._changed.notify()
        return list(await asyncio.gather(*(one.future for one in waiting)))

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
                batch = [one for one in self._fitting() if not one.future.cancelled()]
            if batch:
                self._observe(sum(one.work.size for one in batch))
                return batch

    def _fitting(self) -> Iterator[_Waiting[Work, Outcome]]:
        room = self._batch
        while self._queue and (room == self._batch or self._queue[0].work.size <= room):
            one = self._queue.popleft()
            room -= one.work.size
            self._size -= one.work.size
            yield one

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
