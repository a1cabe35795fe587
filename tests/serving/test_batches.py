"""The queue is bounded, batches grow under load, and a failure reaches its own request alone."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from gnn_encoder.serving.batches import MicroBatches
from gnn_encoder.serving.problems import Problem


class Worker:
    """Holds each batch until it is let go on, and notes what was in it."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.begun, self.go = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, works: Sequence[str]) -> list[str | Exception]:
        self.batches.append([*works])
        self.begun.release()
        assert self.go.acquire(timeout=10)
        return [ValueError("bad") if work == "bad" else work.upper() for work in works]


def run(body: Callable[[MicroBatches[str, str], Worker], Any], **options: int) -> Worker:
    worker = Worker()
    batches = MicroBatches(worker, **{"waiting": 4, "batch": 3, **options})  # type: ignore[arg-type]

    async def main() -> None:
        batches.start()
        try:
            await asyncio.wait_for(body(batches, worker), 20)
        finally:
            worker.go.release(100)
            await asyncio.to_thread(batches.close)

    asyncio.run(main())
    return worker


async def begun(worker: Worker) -> None:
    assert await asyncio.to_thread(worker.begun.acquire, True, 10)


async def submitted(batches: MicroBatches[str, str], work: str) -> "asyncio.Task[str]":
    """A request that waits in the queue."""
    task = asyncio.create_task(batches.submit(work))
    await asyncio.sleep(0)
    return task


def test_what_waits_is_done_together_in_order() -> None:
    async def body(batches: MicroBatches[str, str], worker: Worker) -> None:
        first = await submitted(batches, "a")
        await begun(worker)
        others = [await submitted(batches, name) for name in "bcde"]
        assert batches.size == 4
        worker.go.release(100)
        assert [await task for task in (first, *others)] == ["A", "B", "C", "D", "E"]
        assert batches.size == 0

    assert run(body).batches == [["a"], ["b", "c", "d"], ["e"]]


def test_a_full_queue_refuses_a_request() -> None:
    async def body(batches: MicroBatches[str, str], worker: Worker) -> None:
        tasks = [await submitted(batches, "a")]
        await begun(worker)
        tasks += [await submitted(batches, name) for name in "bcde"]
        with pytest.raises(Problem, match="4 queries wait already, of 4 that may") as refused:
            await batches.submit("f")
        assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "1"})
        worker.go.release(100)
        assert await asyncio.gather(*tasks) == ["A", "B", "C", "D", "E"]

    assert run(body).batches == [["a"], ["b", "c", "d"], ["e"]]


def test_a_failure_is_of_one_request() -> None:
    async def body(batches: MicroBatches[str, str], worker: Worker) -> None:
        worker.go.release(100)
        tasks = [await submitted(batches, name) for name in ("a", "bad", "b")]
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert (found[0], found[2]) == ("A", "B")
        assert isinstance(found[1], ValueError)

    run(body)


def test_the_thread_outlives_an_error_of_a_whole_batch() -> None:
    async def main() -> None:
        def fail(works: Sequence[str]) -> list[str | Exception]:
            raise OSError("no memory")

        batches = MicroBatches(fail, waiting=4, batch=2)
        batches.start()
        for _ in range(2):
            with pytest.raises(OSError, match="no memory"):
                await batches.submit("a")
        assert batches.alive
        await asyncio.to_thread(batches.close)
        assert not batches.alive
        with pytest.raises(Problem):
            await batches.submit("a")

    asyncio.run(main())


def test_closing_does_what_waits() -> None:
    async def body(batches: MicroBatches[str, str], worker: Worker) -> None:
        tasks = [await submitted(batches, "a")]
        await begun(worker)
        tasks.append(await submitted(batches, "b"))
        closing = asyncio.create_task(asyncio.to_thread(batches.close))
        await asyncio.sleep(0.05)
        worker.go.release(100)
        await closing
        assert await asyncio.gather(*tasks) == ["A", "B"]

    run(body)


def test_given_up_requests_are_not_worked_on() -> None:
    async def body(batches: MicroBatches[str, str], worker: Worker) -> None:
        first = await submitted(batches, "a")
        await begun(worker)
        gone = await submitted(batches, "gone")
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        kept = await submitted(batches, "kept")
        worker.go.release(100)
        await asyncio.gather(first, kept)
        assert batches.size == 0

    assert run(body).batches == [["a"], ["kept"]]
