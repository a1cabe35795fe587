"""Several vectors a passage, its views: it is found once, with its best view's score (Dual-Cross-Encoder Eq. 11)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.base.matrix import Rows, Scores, array_blocks, block_size, open_matrix, read_manifest
from gnn_encoder.index.keys import least, of_scores, once, unpack

MERGE_ENTRIES = 2**22  # results of one chunk of queries that are sorted at a time


def search_views(index: Any, views: int, queries: NDArray[np.float32], k: int) -> tuple[Rows, Scores]:
    """Find k passages a query in an index with `views` vectors a passage; -1 where an approximate index found fewer.

    s(q, d_j) = max_i q^T d_j^i        (Eq. 11)

    With several views, 2k vectors are fetched first. For the queries whose vectors belong to fewer than k passages,
    their number is doubled, up to k times `views`, which belong to k passages at least. Of vectors that tie for the
    last place FAISS keeps any.

    *Shape:* queries (n, d) -> (n, k) each, best first.
    """
    if views == 1:
        scores, rows = index.search(queries, k)
        return by_score_then_row(rows, scores)
    passages: Rows = np.empty((len(queries), k), dtype=np.int64)
    scores = np.empty((len(queries), k), dtype=np.float32)
    size = max(1, MERGE_ENTRIES // (k * views))
    for first in range(0, len(queries), size):
        part = slice(first, first + size)
        _search(index, views, queries[part], passages[part], scores[part])
    return passages, scores


def _search(index: Any, views: int, queries: NDArray[np.float32], passages: Rows, scores: Scores) -> None:
    """Fill `passages` and `scores`. *Shape:* (n, k) each."""
    k = passages.shape[1]
    width, waiting = 2 * k, np.arange(len(queries))
    while len(waiting):
        of_vectors, rows = index.search(queries[waiting], width)
        found, best = best_views(rows // views, of_vectors, k)  # -1 // views is -1
        passages[waiting], scores[waiting] = found, best
        # A last row of -1: the index has nothing more to give.
        is_complete = (found[:, -1] >= 0) | (rows[:, -1] < 0)
        waiting = waiting[~is_complete] if width < views * k else waiting[:0]
        width = min(2 * width, views * k)


def best_views(passages: Rows, scores: Scores, k: int) -> tuple[Rows, Scores]:
    """Each query's k best passages, each once with its best score, the lower row first among equals.

    *Shape:* (n, vectors) each, passages -1 where nothing was found -> (n, k) each, padded at the end with -1.
    """
    return unpack(np.sort(least(once(of_scores(passages, scores), np.sort), k)))


def by_score_then_row(rows: Rows, scores: Scores) -> tuple[Rows, Scores]:
    """Order each query's results: best first, lower row first among equals. *Shape:* (n, k) each."""
    return unpack(np.sort(of_scores(rows, scores)))


def iterate_views(embeddings_folder: Path) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield (first passage, block) over a matrix. *Shape:* block (passages, views, d)."""
    manifest = read_manifest(embeddings_folder)
    dimension, views = manifest.shape[1], manifest.views
    rows = max(1, block_size(dimension) // views) * views
    for first_row, block in array_blocks(open_matrix(embeddings_folder), rows):
        yield first_row // views, block.reshape(-1, views, dimension)
