"""The queue is bounded, batches grow under load, and the queue outlives failures."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from gnn_encoder.serving.batches import Batches, QueueFull


class Worker:
    """Holds each batch until it is let go on, and notes what was in it."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.begun, self.go = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, works: Sequence[str]) -> list[str]:
        self.batches.append([*works])
        self.begun.release()
        assert self.go.acquire(timeout=10)
        if "bad" in works:
            raise ValueError("bad")
        return [work.upper() for work in works]


def run(body: Callable[[Batches[str, str], Worker], Awaitable[None]]) -> list[list[str]]:
    worker = Worker()

    async def main() -> None:
        with ThreadPoolExecutor(1) as executor:
            try:
                await asyncio.wait_for(body(Batches(worker, executor, waiting=4, batch=3), worker), 20)
            finally:
                worker.go.release(100)

    asyncio.run(main())
    return worker.batches


async def begin(batches: Batches[str, str], worker: Worker, *others: str) -> "list[asyncio.Task[str]]":
    """A batch that is held, and others that wait."""
    tasks = [asyncio.create_task(batches.submit("a"))]
    await asyncio.sleep(0)
    assert await asyncio.to_thread(worker.begun.acquire, True, 10)
    tasks += [asyncio.create_task(batches.submit(work)) for work in others]
    await asyncio.sleep(0)
    return tasks


def test_what_waits_is_done_together_in_order_and_a_full_queue_refuses() -> None:
    async def body(batches: Batches[str, str], worker: Worker) -> None:
        tasks = await begin(batches, worker, *"bcde")
        with pytest.raises(QueueFull):
            await batches.submit("f")
        worker.go.release(100)
        assert await asyncio.gather(*tasks) == ["A", "B", "C", "D", "E"]
        assert await batches.submit("g") == "G"  # after a time in which nothing waited

    assert run(body) == [["a"], ["b", "c", "d"], ["e"], ["g"]]


def test_the_queue_outlives_an_error_of_a_batch() -> None:
    async def body(batches: Batches[str, str], worker: Worker) -> None:
        tasks = await begin(batches, worker, "b", "bad", "c", "d")
        worker.go.release(100)
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(one) for one in found] == [str, ValueError, ValueError, ValueError, str]

    run(body)


def test_given_up_requests_are_not_worked_on() -> None:
    async def body(batches: Batches[str, str], worker: Worker) -> None:
        first, gone, kept = await begin(batches, worker, "gone", "kept")
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        worker.go.release(100)
        assert await asyncio.gather(first, kept) == ["A", "KEPT"]

    assert run(body) == [["a"], ["kept"]]
