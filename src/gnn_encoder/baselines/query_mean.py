"""h'_p = h_p + lambda * mean of the embeddings of p's labelled training queries: what the query log adds for nothing.

Where vectors have length 1 (cosine), h'_p is brought to length 1 again. Passages without a label, and all passages with
lambda 0, keep their vectors to the bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from tqdm import tqdm

from gnn_encoder.baselines.rankings import NOTHING, Ranking, best
from gnn_encoder.core.rows import Matrix, Rows
from gnn_encoder.core.storage.arrays import iterate_blocks, read_manifest
from gnn_encoder.index.exact import block_top_k


@dataclass(frozen=True, kw_only=True)
class QueryMeans:
    """The labelled queries of every passage that has some.

    *Shape:* queries (n, d), their embeddings; passages (l,), rows of the labelled passages, sorted; starts (l + 1,):
    passage i is labelled for the queries members[starts[i]:starts[i + 1]].
    """

    queries: Matrix
    passages: Rows
    starts: Rows
    members: Rows

    @classmethod
    def of(cls, pairs: pl.DataFrame, queries: Matrix) -> Self:
        """Group labelled pairs by passage.

        Args:
            pairs: columns query, a row of `queries`, and passage.
        """
        pairs = pairs.sort("passage", "query")
        passages, starts = np.unique(pairs["passage"].to_numpy().astype(np.int64), return_index=True)
        members = pairs["query"].to_numpy().astype(np.int64)
        return cls(queries=queries, passages=passages, starts=np.append(starts, len(members)), members=members)

    def of_block(self, first: int, count: int) -> tuple[Rows, Matrix]:
        """The labelled ones of `count` passages from row `first` on: places in the block, and means.

        *Shape:* (r,), (r, d).
        """
        low, high = np.searchsorted(self.passages, [first, first + count])
        starts = self.starts[low : high + 1]
        if low == high:
            return np.empty(0, np.int64), np.empty((0, self.queries.shape[1]), np.float32)
        vectors = self.queries[self.members[starts[0] : starts[-1]]]
        sums = np.add.reduceat(vectors, starts[:-1] - starts[0], axis=0)
        return self.passages[low:high] - first, (sums / np.diff(starts)[:, None]).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class Shift:
    """Shifts blocks of passage vectors.

    Attributes:
        unit_length: whether vectors have length 1.
        dtype: that of the matrix on disk; vectors are rounded to it, so that what is judged is what is written.
    """

    means: QueryMeans
    unit_length: bool
    dtype: str

    def vectors(self, block: Matrix, means: Matrix, weight: float) -> Matrix:
        """h_p + weight * mean, rounded. *Shape:* (r, d) all."""
        if weight == 0:
            return block
        shifted = block + np.float32(weight) * means
        if self.unit_length:
            length = np.linalg.norm(shifted, axis=1, keepdims=True)
            shifted = np.divide(shifted, length, out=np.zeros_like(shifted), where=length > 0)
        return shifted.astype(self.dtype).astype(np.float32)

    def block(self, first: int, block: Matrix, weight: float) -> Matrix:
        """The rows of a matrix from `first` on, those of labelled passages shifted. *Shape:* (count, d)."""
        places, means = self.means.of_block(first, len(block))
        block[places] = self.vectors(block[places], means, weight)
        return block

    def rankings(self, embeddings: Path, queries: Matrix, weights: Sequence[float], k: int) -> list[Rows]:
        """Each query's k best passages of the whole corpus with each weight; the corpus is read once.

        Passages without a label are searched once for all weights.

        *Shape:* queries (n, d) -> (n, k) for each weight.
        """
        tops = [_nothing(len(queries), k) for _ in weights]
        rows = read_manifest(embeddings).shape[0]
        with tqdm(total=rows, desc="query mean", unit="passage", unit_scale=True, disable=None) as bar:
            for first, block in iterate_blocks(embeddings):
                places, means = self.means.of_block(first, len(block))
                others = np.delete(np.arange(len(block)), places)
                same = _search(block[others], queries, k, first + others)
                for i, weight in enumerate(weights):
                    moved = _search(self.vectors(block[places], means, weight), queries, k, first + places)
                    parts = (tops[i], same, moved)
                    passages = np.concatenate([part[0] for part in parts], axis=1)
                    tops[i] = best(passages, np.concatenate([part[1] for part in parts], axis=1), k)
                bar.update(len(block))
        return [passages for passages, _ in tops]


def _search(vectors: Matrix, queries: Matrix, k: int, rows: NDArray[Any]) -> Ranking:
    """The best of a few vectors, named by their `rows`. *Shape:* (r, d), (n, d), (r,) -> (n, min(k, r)) both."""
    if len(vectors) == 0:
        return _nothing(len(queries), 0)
    places, scores = block_top_k(np.ascontiguousarray(vectors), queries, k)
    return rows[places], scores


def _nothing(queries: int, k: int) -> Ranking:
    return np.full((queries, k), -1, dtype=np.int64), np.full((queries, k), NOTHING, dtype=np.float32)
