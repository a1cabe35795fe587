"""Quality and cost against the number of views per passage (Dual-Cross-Encoder, section 5.1 and Table 6).

The paper reports quality; the cost is our addition.
"""

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import faiss
import numpy as np
import polars as pl

from gnn_encoder.core.rows import Matrix, Rows
from gnn_encoder.core.section import PoolKind
from gnn_encoder.core.storage.arrays import Origin, read_manifest
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.core.view_pool import Pool
from gnn_encoder.dual_cross.views import write_means
from gnn_encoder.index.build import build
from gnn_encoder.index.exact import exact_top_k
from gnn_encoder.index.search import PassageIndex

TIMED_QUERIES = 200
WARM_UP = 10  # queries that are searched before the timed ones
TOP = 10  # passages that a timed search returns

Point = dict[str, float]  # columns of one row of the curve


@dataclass(frozen=True, kw_only=True)
class Curve:
    """What is measured with the first views of each passage.

    Attributes:
        matrix: the matrix of views. *Shape:* (passages * stored views, d).
        queries: their embeddings. *Shape:* (n, d).
        passages: the passages table.
        judge: the mean of each measure, of rankings of the queries. *Shape:* (n, depth).
        depth: passages to retrieve per query.
        factory, dtype: of the index, and of the matrix of means.
    """

    matrix: Path
    queries: Matrix
    passages: Path
    judge: Callable[[Rows], Point]
    depth: int
    factory: str
    dtype: str
    seed: int

    def measure(self, pool: Pool, work: Path) -> pl.DataFrame:
        """A row with only the first view of each passage, with its first two, and so on.

        With several views there is a row for each way to pool them; one view has its own score in all of them.

        Args:
            pool: settings of the pools that have some.
            work: scratch folder; rows that an interrupted run measured are kept there.
        """
        pools, rows = [replace(pool, kind=kind) for kind in get_args(PoolKind)], []
        for views in range(1, read_manifest(self.matrix).views + 1):
            for one in pools if views > 1 else pools[:1]:
                kept = work / f"views-{one.kind}-{views}.json"
                if not kept.exists():
                    found = self.quality(views, one) | self.cost(views, one, work)
                    write_json(kept, {"views": views, "pool": one.kind, **found})
                rows.append(json.loads(kept.read_text()))
        return pl.DataFrame(rows)

    def quality(self, views: int, pool: Pool) -> Point:
        """Mean of each measure, by exact search over only the first `views` views of each passage."""
        manifest = read_manifest(self.matrix)
        depth = min(self.depth, manifest.shape[0] // manifest.views)
        found = exact_top_k(self.matrix, self.queries, depth, views=views, pool=pool, name="retrieve.depth")
        return self.judge(found[0])

    def cost(self, views: int, pool: Pool, work: Path) -> Point:
        """Bytes of the index per passage, and milliseconds and vectors of a search for `TOP` passages.

        The index is built, opened and searched as it is online, with one query at a time on one thread. Encoding the
        query is not timed, since it costs the same with any number of views. The time is the median over
        `TIMED_QUERIES` queries. For the mean of the views the index holds one vector a passage.
        """
        folder, means = work / f"index-{pool.kind}-{views}", work / f"means-{views}"
        indexed, kept = self.matrix, views
        if pool.kind == "mean":
            made = read_manifest(self.matrix)
            origin = Origin(model_fingerprint=made.model_fingerprint, input_fingerprint=made.input_fingerprint)
            write_means(self.matrix, means, pool, dtype=self.dtype, origin=origin, views=views)
            indexed, kept = means, 1
        build(
            indexed,
            folder,
            factory=self.factory,
            pids=self.passages,
            system="dual_cross",
            seed=self.seed,
            views=kept,
        )
        index, threads = PassageIndex.open(folder), faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(1)
        for query in self.queries[:WARM_UP]:
            _timed(index, query[None])
        timed = [_timed(index, query[None]) for query in self.queries[:TIMED_QUERIES]]
        faiss.omp_set_num_threads(threads)
        milliseconds, vectors = zip(*timed, strict=True)
        point = {
            "index_bytes": index.bytes / index.passages,
            "milliseconds": float(np.median(milliseconds)),
            "vectors": float(np.mean(vectors)),
        }
        shutil.rmtree(folder)
        shutil.rmtree(means, ignore_errors=True)
        return point


def _timed(index: PassageIndex, query: Matrix) -> tuple[float, int]:
    began = time.perf_counter()
    found = index.find(query, min(TOP, index.passages))
    return 1000 * (time.perf_counter() - began), int(found.vectors[0])
