"""Quality and cost against the number of views per passage (Dual-Cross-Encoder, section 5.1 and Table 6).

The paper reports quality; the cost is our addition.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import get_args

import faiss
import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.core.runs import as_run
from gnn_encoder.core.section import PoolKind
from gnn_encoder.core.storage.arrays import Origin, read_manifest
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.core.storage.tables import read_column
from gnn_encoder.core.view_pool import Pool
from gnn_encoder.dual_cross.views import pool_of, write_means
from gnn_encoder.encoding.corpus import embed_queries
from gnn_encoder.evaluation.judge import measure_split
from gnn_encoder.evaluation.measures import mean, parse
from gnn_encoder.index.build import INDEX, build
from gnn_encoder.index.exact import exact_top_k
from gnn_encoder.index.search import PassageIndex
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.opening import open_queries
from gnn_encoder.pipeline.params import Params

TIMED_QUERIES = 200
WARM_UP = 10  # queries that are searched before the timed ones
TOP = 10  # passages that a timed search returns

Point = dict[str, float]  # columns of one row of the curve


def quality(
    embeddings_folder: Path,
    queries: NDArray[np.float32],
    qids: pl.Series,
    pids: pl.Series,
    judge: Callable[[pl.DataFrame], pl.DataFrame],
    *,
    views: int,
    pool: Pool,
    depth: int,
) -> Point:
    """Mean of each measure, by exact search over only the first `views` views of each passage.

    Args:
        embeddings_folder: the matrix of views. *Shape:* (passages * stored views, d).
        queries: embeddings of the queries. *Shape:* (n, d).
        qids: ids of the queries. *Shape:* (n,).
        pids: ids of the passages. *Shape:* (passages,).
        judge: turns a run (qid, pid, rank) into values (qid, measure, value).
        views: at most the stored views.
        pool: what makes a passage's score of its views' scores.
        depth: passages to retrieve per query, at most the whole corpus.
    """
    passages, _ = exact_top_k(
        embeddings_folder, queries, min(depth, len(pids)), views=views, pool=pool, name="retrieve.depth"
    )
    return mean(judge(as_run(passages, qids, pids)))


def cost(
    embeddings_folder: Path,
    queries: NDArray[np.float32],
    scratch: Path,
    *,
    views: int,
    pool: Pool,
    factory: str,
    dtype: str,
    passages_table: Path,
    seed: int,
) -> Point:
    """Bytes of the index per passage, and milliseconds and vectors of a search for `TOP` passages.

    The index is built, opened and searched as it is online, with one query at a time on one thread. Encoding the query
    is not timed, since it costs the same with any number of views. The time is the median over `TIMED_QUERIES` queries.
    For the mean of the views the index holds one vector a passage, of a matrix of `dtype`.

    *Shape:* queries (n, d).
    """
    folder, means = scratch / f"index-{pool.kind}-{views}", scratch / f"means-{views}"
    indexed, kept = embeddings_folder, views
    if pool.kind == "mean":
        made = read_manifest(embeddings_folder)
        origin = Origin(model_fingerprint=made.model_fingerprint, input_fingerprint=made.input_fingerprint)
        write_means(embeddings_folder, means, pool, dtype=dtype, origin=origin, views=views)
        indexed, kept = means, 1
    build(
        indexed,
        folder,
        factory=factory,
        pids=passages_table,
        system="dual_cross",
        seed=seed,
        views=kept,
        pool=pool,
    )
    index = PassageIndex.open(folder)
    with _one_thread():
        for query in queries[:WARM_UP]:
            index.find(query[None], min(TOP, index.passages))
        timed = [_timed(index, query[None]) for query in queries[:TIMED_QUERIES]]
    point = {
        "index_bytes": (folder / INDEX).stat().st_size / index.passages,
        "milliseconds": float(np.median([milliseconds for milliseconds, _ in timed])),
        "vectors": float(np.mean([vectors for _, vectors in timed])),
    }
    shutil.rmtree(folder)
    shutil.rmtree(means, ignore_errors=True)
    return point


def _timed(index: PassageIndex, query: NDArray[np.float32]) -> tuple[float, int]:
    began = time.perf_counter()
    found = index.find(query, min(TOP, index.passages))
    return 1000 * (time.perf_counter() - began), int(found.vectors[0])


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)


def curve(system: str, params: Params, work: Path) -> pl.DataFrame:
    """Quality and cost on the dev queries, with only the first view of each passage, with its first two, and so on.

    With several views there is a row for each way to pool them; one view has its own score in all of them.

    Args:
        work: scratch folder; numbers of views that an interrupted run measured are kept there.
    """
    encoder = DualEncoder.load(project.encoder(system), precision=params.encoder.precision).for_inference()
    tokens = open_queries(project.queries("dev"), encoder)
    queries = embed_queries(encoder, tokens, params.encoder.batch_tokens)
    counts = range(1, read_manifest(project.views(system)).views + 1)
    asked = pool_of(params.dual_cross)
    pools = [replace(asked, kind=kind) for kind in get_args(PoolKind)]
    points = [(views, pool) for views in counts for pool in (pools if views > 1 else pools[:1])]
    return pl.DataFrame([_point(system, *point, queries, params, work) for point in points])


def _point(
    system: str, views: int, pool: Pool, queries: NDArray[np.float32], params: Params, work: Path
) -> dict[str, float | str]:
    """One row of the curve, read from `work` if an interrupted run measured it. *Shape:* queries (n, d)."""
    kept, matrix = work / f"views-{pool.kind}-{views}.json", project.views(system)
    measures = list(parse([*params.evaluate.measures, params.evaluate.significance]))

    def judge(found: pl.DataFrame) -> pl.DataFrame:
        return measure_split(found, "dev", measures, params.evaluate)

    if not kept.exists():
        qids, pids = (
            pl.Series(read_column(*at)) for at in ((project.queries("dev"), "qid"), (project.PASSAGES, "pid"))
        )
        measured = quality(matrix, queries, qids, pids, judge, views=views, pool=pool, depth=params.retrieve.depth)
        spent = cost(
            matrix,
            queries,
            work,
            views=views,
            pool=pool,
            factory=params.index.factory,
            dtype=params.cache_passages.dtype,
            passages_table=project.PASSAGES,
            seed=params.seed,
        )
        write_json(kept, {"views": views, "pool": pool.kind, **measured, **spent})
    found: dict[str, float | str] = json.loads(kept.read_text())
    return found
