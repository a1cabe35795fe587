"""All that the endpoints share: open systems, the encoder thread, the explainer, metrics; and its life."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import numpy as np

from gnn_encoder.core.errors import UserError
from gnn_encoder.searcher import Searcher
from gnn_encoder.serving.batches import MicroBatches
from gnn_encoder.serving.engine import Done, Work
from gnn_encoder.serving.explainer import Explainer
from gnn_encoder.serving.middleware import Metrics
from gnn_encoder.serving.problems import Problem
from gnn_encoder.serving.settings import Limits
from gnn_encoder.serving.systems import Served, Systems

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Service:
    """What a running app holds.

    Attributes:
        explain_at_start: start the process that explains with the server, not with the first question.
    """

    systems: Systems
    batches: MicroBatches[Work, Done]
    explainer: Explainer
    metrics: Metrics
    limits: Limits
    examples: list[str]
    explain_at_start: bool = False

    async def search(self, served: Served, query: str, k: int, *, hybrid: bool = False) -> Done:
        """Embed a query and search with it. Raises `Problem` where the queue is full."""
        try:
            return await self.batches.submit(Work(query=query, searcher=served.to_search(hybrid), k=k))
        except UserError as error:
            log.error("%s", error)
            raise Problem(500, "broken-system", "the system cannot be searched; the server's log says why") from error

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the threads and tasks of the service; at the end, do what waits."""
        self.batches.start()
        tasks = [asyncio.create_task(self._keep_up())]
        if self.explain_at_start:
            tasks.append(asyncio.create_task(self._open_explainers()))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.to_thread(self.batches.close)
            self.explainer.close()

    async def _keep_up(self) -> None:
        while True:
            await asyncio.sleep(self.limits.poll)
            try:
                taken = await self.systems.take_over(self._try_out)
            except Exception:  # whatever is wrong on disk, the open systems go on and it is looked at again
                log.exception("looking for new indexes failed")
                continue
            for name in taken:
                self.metrics.taken_over.labels(name).inc()
            if taken:
                await self.explainer.retire()

    async def _try_out(self, searcher: Searcher) -> None:
        await self.batches.submit(Work(query="trial", searcher=searcher, k=1))

    async def _open_explainers(self) -> None:
        for served in self.systems:
            if served.entry.kind == "graph":
                with suppress(Problem):  # told to who asks for an explanation
                    await self.explainer.open(served.name)


def pair_score(served: Served, row: int, vector: np.ndarray) -> float | None:
    """The score of a query and a passage, that of its best view; None where the index gives no vectors back.

    *Shape:* vector (d,).
    """
    try:
        return float((served.vectors(row) @ vector).max())
    except RuntimeError:  # FAISS's word for an index that cannot
        return None
