"""What more views a passage give and cost (Dual-Cross-Encoder, section 5.1 and Table 6, with the cost added)."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import faiss
import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.evaluation.measures import mean
from gnn_encoder.evaluation.runs import as_run
from gnn_encoder.index.build import INDEX, build
from gnn_encoder.index.exact import top_k
from gnn_encoder.index.search import PassageIndex

TIMED_QUESTIONS = 200
WARM_UP = 10  # questions searched before those that are timed
TOP = 10  # passages that a timed question asks for

Point = dict[str, float]  # columns of one row of the curve


def quality(
    embeddings_folder: Path,
    queries: NDArray[np.float32],
    qids: pl.Series,
    pids: pl.Series,
    judge: Callable[[pl.DataFrame], pl.DataFrame],
    *,
    views: int,
    depth: int,
) -> Point:
    """Mean of each measure, searched exactly, when a passage has only the first `views` of its views.

    Args:
        embeddings_folder: *Shape:* (passages * stored views, d).
        queries: *Shape:* (n, d).
        qids: Their ids. *Shape:* (n,).
        pids: *Shape:* (passages,).
        judge: Turns a run (qid, pid, rank) into values (qid, measure, value).
        views: At most those that are stored.
        depth: Passages a question, cut to the corpus.
    """
    passages, _ = top_k(embeddings_folder, queries, min(depth, len(pids)), views=views, name="retrieve.depth")
    return mean(judge(as_run(passages, qids, pids)))


def cost(
    embeddings_folder: Path,
    queries: NDArray[np.float32],
    scratch: Path,
    *,
    views: int,
    factory: str,
    passages_table: Path,
    seed: int,
) -> Point:
    """Bytes of the index a passage, and milliseconds and vectors of a search for `TOP` passages.

    The index is built, opened and searched as it is online. One question at a time, on one thread, the index alone
    (a question's embedding costs the same with any number of views): the median over `TIMED_QUESTIONS`.

    *Shape:* queries (n, d).
    """
    folder = scratch / f"index-{views}"
    build(embeddings_folder, folder, factory=factory, pids=passages_table, system="dual_cross", seed=seed, views=views)
    index = PassageIndex.open(folder)
    with _one_thread():
        for question in queries[:WARM_UP]:
            index.find(question[None], min(TOP, index.passages))
        timed = [_timed(index, question[None]) for question in queries[:TIMED_QUESTIONS]]
    point = {
        "index_bytes": (folder / INDEX).stat().st_size / index.passages,
        "milliseconds": float(np.median([milliseconds for milliseconds, _ in timed])),
        "vectors": float(np.mean([vectors for _, vectors in timed])),
    }
    shutil.rmtree(folder)
    return point


def _timed(index: PassageIndex, question: NDArray[np.float32]) -> tuple[float, int]:
    began = time.perf_counter()
    found = index.find(question, min(TOP, index.passages))
    return 1000 * (time.perf_counter() - began), int(found.vectors[0])


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)
