"""Exact top-k passages by inner product (Eq. 1), streaming: memory does not grow with the corpus.

The score of a passage with several views is what `Pool` makes of theirs, by default their maximum (Dual-Cross-Encoder
Eq. 11).
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.progress import tqdm
from gnn_encoder.core.rows import Rows, Scores
from gnn_encoder.core.storage.arrays import array_blocks, read_manifest, row_not_finite
from gnn_encoder.core.view_pool import BEST, Pool
from gnn_encoder.index.views import MERGE_ENTRIES, best_views, by_score_then_row, iterate_views


def exact_top_k(
    embeddings_folder: Path,
    queries: NDArray[np.float32],
    k: int,
    *,
    name: str = "k",
    views: int | None = None,
    pool: Pool = BEST,
) -> tuple[Rows, Scores]:
    """Find the k passages with the largest inner product; of equal ones the lower row comes first.

    Args:
        embeddings_folder: Matrix of passage embeddings on disk. *Shape:* (passages * views, d).
        queries: *Shape:* (n, d).
        k: Passages a query.
        name: The parameter that `k` comes from, for the message when it is too large.
        views: How many views of each passage count, the first ones; by default all.
        pool: What makes a passage's score of its views' scores.

    Returns:
        Passage rows and scores, best first. *Shape:* each (n, k).
    """
    manifest = read_manifest(embeddings_folder)
    n_passages = manifest.shape[0] // manifest.views
    check_k(k, n_passages, name)
    queries, views = check_queries(queries, manifest.shape[1]), views or manifest.views
    blocks = ((first, block[:, :views]) for first, block in iterate_views(embeddings_folder))
    return _search(blocks, n_passages, queries, k, views, pool)


def array_top_k(matrix: NDArray[Any], queries: NDArray[np.float32], k: int, *, name: str = "k") -> tuple[Rows, Scores]:
    """As `exact_top_k`, in a matrix of one row a passage that is in memory or mapped.

    *Shape:* matrix (m, d), queries (n, d) -> (n, k) each.
    """
    check_k(k, len(matrix), name)
    blocks = ((first, block[:, None]) for first, block in array_blocks(matrix))
    return _search(blocks, len(matrix), check_queries(queries, matrix.shape[1]), k, 1, BEST)


def _search(
    blocks: Iterable[tuple[int, NDArray[np.float32]]],
    n_passages: int,
    queries: NDArray[np.float32],
    k: int,
    views: int,
    pool: Pool,
) -> tuple[Rows, Scores]:
    passages: Rows = np.full((len(queries), k), -1, dtype=np.int64)
    scores: Scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
    chunk = max(1, MERGE_ENTRIES // k)
    with tqdm(total=n_passages, desc="search", unit="passage", unit_scale=True, delay=2) as bar:
        for first, block in blocks:
            for vectors in _apart(block, pool):
                for start in range(0, len(queries), chunk):
                    part = slice(start, start + chunk)
                    found, found_scores = block_top_k(vectors, queries[part], k)
                    _merge(passages[part], scores[part], found + first, found_scores, views)
            bar.update(len(block))
    return passages, scores


def _apart(block: NDArray[np.float32], pool: Pool) -> Iterator[NDArray[np.float32]]:
    """What of a block is searched by itself. *Shape:* (passages, views, d) -> (passages, d) each."""
    if pool.kind == "mean":  # the mean of inner products is the inner product with the mean
        yield np.einsum("pvd,v->pd", block, pool.weights(block.shape[1]))
        return
    for view in range(block.shape[1]):  # a passage among the k best is among the k best by its best view alone
        yield np.ascontiguousarray(block[:, view])


def block_top_k(
    block: NDArray[np.float32], queries: NDArray[np.float32], k: int, *, spare: int = 1
) -> tuple[Rows, Scores]:
    """Exact top min(k, rows) of one block in memory, ties by row.

    Of several rows that tie for the last place FAISS keeps any. `spare` more rows than needed are therefore fetched; as
    long as the last row fetched still ties with the last place, twice as many rows are fetched for the query.

    *Shape:* block (rows, d), queries (n, d) -> (n, min(k, rows)) each.
    """
    kept = min(k, len(block))
    rows, scores = _sorted_knn(block, queries, min(kept + spare, len(block)))
    best = rows[:, :kept].copy(), scores[:, :kept].copy()
    if rows.shape[1] < len(block):
        unsure = np.flatnonzero(scores[:, kept - 1] == scores[:, -1])
        if len(unsure):
            best[0][unsure], best[1][unsure] = block_top_k(block, queries[unsure], k, spare=2 * spare + kept)
    return best


def check_k(k: int, n_passages: int, name: str) -> None:
    """Refuse to look for more passages than there are."""
    if not 1 <= k <= n_passages:
        raise UserError(f"{name} is {k}: must be from 1 to the number of passages, {n_passages}; set it in params.yaml")


def check_queries(queries: NDArray[np.float32], dimension: int) -> NDArray[np.float32]:
    """The queries as FAISS wants them: float32, contiguous. *Shape:* (n, dimension)."""
    if queries.ndim != 2 or queries.shape[1] != dimension:
        raise UserError(
            f"query embeddings have shape {queries.shape}, the passages' dimension is {dimension}: "
            "both must come from one model; encode and index the passages again"
        )
    if (row := row_not_finite(queries)) is not None:
        raise UserError(
            f"query embeddings: row {row} holds NaN or an infinite value; embeddings must be finite: "
            "train with a lower learning rate or in float32"
        )
    return np.ascontiguousarray(queries, dtype=np.float32)


def _sorted_knn(block: NDArray[np.float32], queries: NDArray[np.float32], k: int) -> tuple[Rows, Scores]:
    import faiss  # only here: explaining needs torch, and both in one process crash on macOS

    scores, rows = faiss.knn(queries, block, k, metric=faiss.METRIC_INNER_PRODUCT)
    return by_score_then_row(rows, scores)


def _merge(passages: Rows, scores: Scores, new_passages: Rows, new_scores: Scores, views: int) -> None:
    """Merge a later block's results into the best so far, in place.

    With one view no passage comes twice, so that a stable sort is enough: it leaves earlier rows first among equals.
    """
    k = passages.shape[1]
    all_passages = np.concatenate([passages, new_passages], axis=1)
    all_scores = np.concatenate([scores, new_scores], axis=1)
    if views > 1:
        passages[:], scores[:] = best_views(all_passages, all_scores, k)
        return
    order = np.argsort(-all_scores, axis=1, kind="stable")[:, :k]
    passages[:] = np.take_along_axis(all_passages, order, axis=1)
    scores[:] = np.take_along_axis(all_scores, order, axis=1)
