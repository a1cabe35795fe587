"""Exact top-k passages by inner product (Eq. 1), streaming: memory does not grow with the corpus.

A score and its row are one whole number, a key: of several, the least is the best, of equal scores the lower row. So
one selection of the k least numbers finds the best passages with their ties, in NumPy as in torch.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.matrix import Matrix, Rows, Scores, array_blocks, check_finite

MERGE_ENTRIES = 2**22  # results of one chunk of queries that are merged at a time
SCORES = 2**25  # scores of a block that become keys on a GPU at a time: 256 MiB, and four times that on the way
HALF, MOST = 2**32 - 1, 2**31 - 1  # the lower 32 bits of a number, and all of an int32 but its sign
MISSING = np.finfo(np.float32).min  # FAISS's score where it found nothing
Keys = NDArray[np.int64]  # or a torch.Tensor of int64
Ranking = tuple[Rows, Scores]  # of passages; *Shape:* (queries, depth) both, best first


def array_top_k(
    matrix: NDArray[Any],
    queries: Matrix,
    k: int,
    *,
    name: str = "k",
    change: Callable[[int, Matrix], Matrix] = lambda first, block: block,
) -> Ranking:
    """Rows and scores of the k best; `name`: k's parameter; `change`: of the rows from one on, before they are scored.

    *Shape:* matrix (m, d), queries (n, d), change (r, d) -> (r, d) -> (n, k) each.
    """
    queries = checked(queries, matrix.shape[1], k, len(matrix), name)
    if not len(queries):
        return np.empty((0, k), dtype=np.int64), np.empty((0, k), dtype=np.float32)
    engine, chunk = _engine(), max(1, MERGE_ENTRIES // k)
    parts = [engine.put(queries[start : start + chunk]) for start in range(0, len(queries), chunk)]
    best: list[list[Any]] = [[] for _ in parts]  # of each part the best keys so far
    with tqdm(total=len(matrix), desc="search", unit="passage", unit_scale=True, delay=2) as bar:
        for first, block in array_blocks(matrix):
            changed = change(first, block)
            for i, part in enumerate(parts):
                keys = [*best[i], engine.nearest(changed, part, k) + first]
                best[i] = [engine.least(engine.array.concatenate(keys, axis=1), k)]
            bar.update(len(block))
    return unpack(np.concatenate([engine.ranked(keys) for (keys,) in best]))


def block_top_k(block: Matrix, queries: Matrix, k: int) -> Ranking:
    """The same of one block in memory. *Shape:* block (rows, d), queries (n, d) -> (n, min(k, rows)) each."""
    engine = _engine()
    return unpack(engine.ranked(engine.nearest(block, engine.put(queries), k)))


def top(rows: Rows, scores: Scores, k: int) -> Ranking:
    """Each query's k best of some rows (-1: none, with score MISSING). *Shape:* (n, c) both -> (n, min(k, c)) both."""
    return unpack(np.sort(least(of_scores(rows, scores), k)))


def checked(queries: Matrix, dimension: int, k: int, n_passages: int, name: str) -> Matrix:
    """The queries as FAISS wants them, for a k that the passages allow. *Shape:* (n, dimension)."""
    if not 1 <= k <= n_passages:
        cure = "; set it in params.yaml" if "." in name else ""
        raise UserError(f"{name} is {k}: must be from 1 to the number of passages, {n_passages}{cure}")
    if queries.ndim != 2 or queries.shape[1] != dimension:
        told = f"query embeddings have shape {queries.shape}, the passages' dimension is {dimension}"
        raise UserError(f"{told}: both must come from one model; encode and index the passages again")
    check_finite(queries, "query embeddings")
    return np.ascontiguousarray(queries, dtype=np.float32)


# --- keys -------------------------------------------------------------------------------------------------------------


def pack(rows: Any, bits: Any) -> Any:
    """Keys of rows (-1: none) and the bits of their scores, int64 both. *Shape:* any, the same -> that.

    The bits of a negative float grow as it falls: all but its sign are turned round, so that whole numbers compare as
    the scores do. Then all bits are turned round, since the largest score is the best.
    """
    return (~(bits ^ ((bits >> 31) & MOST)) << 32) | (rows + 1)


def of_scores(rows: Rows, scores: Scores) -> Keys:
    """Keys of rows and finite scores. *Shape:* any, the same -> that."""
    found: Keys = pack(rows, (scores + np.float32(0)).view(np.int32).astype(np.int64))  # 0 is added, since -0 equals it
    return found


NOTHING = int(of_scores(np.array(-1), np.array(MISSING)))


def unpack(keys: Keys) -> Ranking:
    """What `of_scores` has packed. *Shape:* any -> that, both."""
    order = ~(keys >> 32)
    return (keys & HALF) - 1, (order ^ ((order >> 31) & MOST)).astype(np.int32).view(np.float32)


def least(keys: Keys, k: int) -> Keys:
    """The min(k, c) best keys of each query, in any order. *Shape:* (n, c) -> (n, min(k, c))."""
    return keys if keys.shape[1] <= k else np.partition(keys, k - 1, axis=1)[:, :k]


def once(keys: Keys) -> Keys:
    """Leave each row its best key, NOTHING for its others. *Shape:* (n, c) -> the same, in any order."""
    by_row = np.sort(((keys & HALF) << 32) | ((keys >> 32) + MOST + 1))
    found: Keys = (((by_row & HALF) - MOST - 1) << 32) | (by_row >> 32)
    found[:, 1:][(by_row[:, 1:] >> 32) == (by_row[:, :-1] >> 32)] = NOTHING
    return found


# --- engines ----------------------------------------------------------------------------------------------------------


def _engine() -> "_Faiss":
    """On a GPU where torch is loaded and has one, else on the CPU; what searches on a GPU has torch embed first."""
    torch = sys.modules.get("torch")
    return _Torch("cuda") if torch and torch.cuda.is_available() else _Faiss()


class _Faiss:
    """Search on the CPU: FAISS finds the best passages of a block, NumPy merges them as keys."""

    array: Any = np  # the module of its arrays
    least: Callable[[Any, int], Any] = staticmethod(least)

    def put(self, queries: Matrix) -> Any:
        """Queries where they are searched with. *Shape:* (n, d) -> the same."""
        return queries

    def nearest(self, block: Matrix, queries: Any, k: int, spare: int = 1) -> Any:
        """Keys of the best min(k, rows) passages. *Shape:* (rows, d), (n, d) -> (n, min(k, rows)).

        Of rows that tie for the last place FAISS keeps any. So `spare` more are fetched, and twice as many again for
        the queries whose last row fetched still ties with the last place.
        """
        import faiss  # only here: explaining needs torch, and both in one process crash on macOS

        k = min(k, len(block))
        scores, rows = faiss.knn(queries, block, min(k + spare, len(block)), metric=faiss.METRIC_INNER_PRODUCT)
        best = least(of_scores(rows, scores), k)
        unsure = np.flatnonzero((scores[:, k - 1] == scores[:, -1]) & (rows.shape[1] < len(block)))
        if len(unsure):
            best[unsure] = self.nearest(block, queries[unsure], k, 2 * spare + k)
        return best

    def ranked(self, keys: Any) -> Keys:
        """The best first, as NumPy's. *Shape:* (n, c) -> the same."""
        return np.sort(keys)


class _Torch(_Faiss):
    """As `_Faiss`, on a device of torch: all scores of a block become keys, and each selection is one of keys."""

    def __init__(self, device: str) -> None:
        import torch

        self.array, self.device = torch, device

    def put(self, queries: Matrix) -> Any:
        return self.array.from_numpy(queries).to(self.device)

    def nearest(self, block: Matrix, queries: Any, k: int, spare: int = 1) -> Any:
        passages, rows = self.put(block), self.array.arange(len(block), device=self.device)
        parts = queries.split(max(1, SCORES // len(block)))
        bits = ((part @ passages.T + 0.0).view(self.array.int32).long() for part in parts)
        return self.array.concatenate([self.least(pack(rows, part), k) for part in bits])

    def ranked(self, keys: Any) -> Keys:
        return np.asarray(keys.sort().values.cpu())

    least = staticmethod(lambda keys, k: keys.topk(min(k, keys.shape[1]), largest=False, sorted=False).values)
