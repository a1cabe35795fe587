"""Labelled passages, whose vectors move towards the queries that ask for them: what the query log adds for nothing.

The mean of labelled queries is the simplest way: h'_p = h_p + lambda * mean. `nudge` has two others. Passages without a
label, and with lambda 0 all passages, keep their vectors to the bit.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.judgements import Identical
from gnn_encoder.base.matrix import Matrix, Rows, Scores, array_blocks, gather, of_length_1
from gnn_encoder.baselines.rankings import Ranking, best
from gnn_encoder.search.exact import block_top_k


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The labelled passages, and what asks for them.

    *Shape:* passages (l,), their rows, ascending; vectors (l, d), h_p; sums (l, d), c_p; counts (l,), labelled queries;
    moment (d, d), the mean of h_q h_q^T over these queries.
    """

    passages: Rows
    vectors: Matrix
    sums: Matrix
    counts: NDArray[np.int64]
    moment: Matrix

    @classmethod
    def of(cls, passages: NDArray[Any], pairs: pl.DataFrame, queries: Matrix) -> Self:
        """Sum up labelled queries. *Shape:* passages (m, d), queries (n, d); pairs: columns query, passage."""
        pairs = pairs.sort("passage", "query")
        rows, first, counts = np.unique(pairs["passage"].to_numpy(), return_index=True, return_counts=True)
        sums = np.add.reduceat(queries[pairs["query"].to_numpy()], first, axis=0)
        asking = queries[pairs["query"].unique().to_numpy()]
        moment = asking.T @ asking / np.float32(max(1, len(asking)))
        vectors = gather(passages, rows).astype(np.float32)
        return cls(passages=rows, vectors=vectors, sums=sums, counts=counts, moment=moment)

    def plus_mean(self, weight: float, *, unit_length: bool) -> Matrix:
        """h_p + weight * mean of p's labelled queries; of length 1 again where vectors have it. *Shape:* (l, d)."""
        if weight == 0:
            return self.vectors
        moved: Matrix = self.vectors + np.float32(weight) * (self.sums / self.counts[:, None]).astype(np.float32)
        return of_length_1(moved) if unit_length else moved

    def place(self, first: int, block: Matrix, moved: Matrix) -> Matrix:
        """The rows of a matrix from `first` on, with the labelled ones `moved`. *Shape:* block (b, d), moved (l, d)."""
        low, high = np.searchsorted(self.passages, [first, first + len(block)])
        block[self.passages[low:high] - first] = moved[low:high]
        return block


class Others:
    """Rankings of all passages, of which only the labelled ones move: the others are searched once.

    Args:
        passages: *Shape:* (m, d).
        queries: *Shape:* (n, d).
        k: passages a query.
        identical: tells which passages the queries are themselves, none of which is ranked.
    """

    def __init__(
        self, passages: NDArray[Any], asked: Asked, queries: Matrix, k: int, identical: Identical | None = None
    ) -> None:
        self._asked, self.queries, self._k, self._identical = asked, queries, k, identical or Identical()
        self._wide = k + self._identical.most
        shape = len(queries), 0
        self._top: Ranking = np.empty(shape, np.int64), np.empty(shape, np.float32)
        with tqdm(total=len(passages), desc="unlabelled", unit="passage", unit_scale=True) as bar:
            for first, block in array_blocks(passages):
                low, high = np.searchsorted(asked.passages, [first, first + len(block)])
                others = np.delete(np.arange(len(block)), asked.passages[low:high] - first)
                if len(others):
                    self._top = self._joined(*block_top_k(block[others], queries, self._wide), first + others)
                bar.update(len(block))

    @property
    def top(self) -> Ranking:
        """Each query's best passages of those that do not move. *Shape:* (n, at most k) both."""
        return self._identical.without_own(*self._top, self._k)

    def rank(self, moved: Matrix) -> Ranking:
        """Each query's best passages with these vectors of the labelled ones. *Shape:* (l, d) -> two (n, min(k, m))."""
        if len(moved) == 0:
            return self.top
        found = block_top_k(np.ascontiguousarray(moved), self.queries, self._wide)
        return self._identical.without_own(*self._joined(*found, self._asked.passages), self._k)

    def _joined(self, places: Rows, scores: Scores, rows: Rows) -> Ranking:
        passages = np.concatenate([self._top[0], rows[places]], axis=1)
        return best(passages, np.concatenate([self._top[1], scores], axis=1), self._wide)
