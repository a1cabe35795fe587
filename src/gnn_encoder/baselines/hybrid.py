"""BM25 and a dense system together: one ranking of two, and both indexes searched for a query.

Rankings are joined by a weighted sum of standardised scores, or by reciprocal ranks.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.baselines.choice import Choice, Limits, Setting
from gnn_encoder.baselines.params import Baselines
from gnn_encoder.baselines.rankings import NOTHING, Ranking, best
from gnn_encoder.core.errors import UserError
from gnn_encoder.core.rows import Rows, Scores
from gnn_encoder.index.bm25 import BM25Index
from gnn_encoder.index.search import PassageIndex

SCORES, RANKS = "scores", "reciprocal ranks"
LIMITS: Limits = {"weight": (0.0, 1.0)}


@dataclass(frozen=True, kw_only=True)
class Fusion:
    """The passages that two systems found, and what each system gives them.

    *Shape:* all (n, c): passages, -1 where there is none; standardised scores; ranks from 1, infinite where the system
    did not find the passage.
    """

    passages: Rows
    dense: Scores
    lexical: Scores
    dense_ranks: Scores
    lexical_ranks: Scores

    @classmethod
    def of(cls, dense: Ranking, lexical: Ranking) -> Self:
        """Join two rankings. *Shape:* (n, a) and (n, b): passages and scores, best first."""
        passages, in_dense, in_lexical = union(dense[0], lexical[0])
        return cls(
            passages=passages,
            dense=taken(in_dense, *standardised(*dense)),
            lexical=taken(in_lexical, *standardised(*lexical)),
            dense_ranks=_ranks(in_dense),
            lexical_ranks=_ranks(in_lexical),
        )

    def scores(self, setting: Setting) -> Scores:
        """The fused scores; `NOTHING` where there is no passage. *Shape:* (n, c).

        By scores: (1 - w) z(dense) + w z(BM25), with w the setting's `weight`.
        By ranks: 1 / (k + rank of dense) + 1 / (k + rank of BM25), with k the setting's `k` (Cormack et al. 2009).
        """
        if setting["by"] == SCORES:
            weight = np.float32(setting["weight"])
            fused = (1 - weight) * self.dense + weight * self.lexical
        else:
            k = np.float32(setting["k"])
            fused = 1 / (k + self.dense_ranks) + 1 / (k + self.lexical_ranks)
        return np.where(self.passages < 0, NOTHING, fused).astype(np.float32)

    def facts(self, setting: Setting, depth: int) -> Setting:
        """Nothing."""
        return {}


def settings(section: Baselines) -> list[Setting]:
    """All ways to fuse that are tried; of equally good ones the first is taken, which has the least of BM25."""
    by_scores: list[Setting] = [{"by": SCORES, "weight": weight} for weight in sorted(set(section.bm25_weights))]
    by_ranks: list[Setting] = [{"by": RANKS, "k": k} for k in sorted(set(section.reciprocal_ranks))]
    return by_scores + by_ranks


def standardised(passages: Rows, scores: Scores) -> tuple[Scores, Scores]:
    """Scores of each query's passages with mean 0 and standard deviation 1, and the lowest of them.

    The lowest one is what a passage gets that the system did not find. It is 0 where the system found none, and all are
    0 where all scores are equal.

    *Shape:* (n, k) both -> (n, k), (n,).
    """
    found = passages >= 0
    count = np.maximum(found.sum(axis=1, keepdims=True), 1)
    values = np.where(found, scores, 0).astype(np.float64)
    centred = np.where(found, values - values.sum(axis=1, keepdims=True) / count, 0)
    deviation = np.sqrt((centred**2).sum(axis=1, keepdims=True) / count)
    result = np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 0).astype(np.float32)
    return result, result.min(axis=1, initial=0.0)


def _ranks(columns: Rows) -> Scores:
    return np.where(columns >= 0, columns + 1.0, np.inf).astype(np.float32)


def union(first: Rows, second: Rows) -> tuple[Rows, Rows, Rows]:
    """The passages that either of two rankings has, each once a query.

    *Shape:* (n, a), (n, b) -> (n, a + b) three times: passages, padded with -1 anywhere; their columns in `first`; in
    `second`. A column is -1 where the ranking does not have the passage.
    """
    passages = np.concatenate([first, second], axis=1)
    order = np.argsort(passages, axis=1, kind="stable")  # a passage of both stands first as that of `first`
    passages, width = np.take_along_axis(passages, order, axis=1), first.shape[1]
    in_first = np.where(order < width, order, -1)
    in_second = np.where(order >= width, order - width, -1)
    again = np.zeros(passages.shape, dtype=bool)
    again[:, 1:] = (passages[:, 1:] == passages[:, :-1]) & (passages[:, 1:] >= 0)
    in_second[:, :-1] = np.where(again[:, 1:], in_second[:, 1:], in_second[:, :-1])
    passages[again] = -1
    return passages, in_first, in_second


def taken(columns: Rows, values: Scores, otherwise: Scores) -> Scores:
    """`values` at `columns`; `otherwise` where a column is -1.

    *Shape:* (n, c), (n, a), (n,) -> (n, c).
    """
    if values.shape[1] == 0:
        return np.broadcast_to(otherwise[:, None], columns.shape).astype(np.float32)
    found = np.take_along_axis(values, np.maximum(columns, 0), axis=1)
    return np.where(columns >= 0, found, otherwise[:, None]).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class HybridIndex:
    """Both indexes.

    Attributes:
        depth: passages per query that each of them contributes.
        dense_rows: the dense row of each of BM25's passages, -1 of those that were deleted since both were built.
            Passages that were added since have no part from BM25. *Shape:* (passages of BM25,).
    """

    dense: PassageIndex
    lexical: BM25Index
    setting: Setting
    depth: int
    dense_rows: Rows

    @classmethod
    def open(cls, dense: PassageIndex, lexical: Path, choice: Choice, rows: Path | None = None) -> Self:
        """Open BM25's index beside the dense one, with the fusion that was chosen.

        Args:
            dense: the dense index.
            lexical: folder of BM25's index.
            choice: the fusion; its facts hold the depth.
            rows: an array of the row of each of its passages in BM25's index, -1 where that has none; None: the same.

        Raises:
            UserError: a file is missing, or both indexes are of different passages.
        """
        bm25 = BM25Index.open(lexical)
        of_lexical = np.arange(dense.passages) if rows is None else np.load(rows)
        if (bm25.passages != dense.passages) if rows is None else (bm25.passages <= of_lexical.max()):
            raise UserError(
                f"{lexical}: holds {bm25.passages} passages, {dense.folder} has {dense.passages}; "
                "make it again (`dvc repro`)"
            )
        dense_rows = np.full(bm25.passages, -1)
        dense_rows[of_lexical[of_lexical >= 0]] = np.flatnonzero(of_lexical >= 0)
        depth = int(choice.facts["depth"])
        return cls(dense=dense, lexical=bm25, setting=choice.setting, depth=depth, dense_rows=dense_rows)

    @cached_property
    def _deleted(self) -> int:
        return int((self.dense_rows < 0).sum())

    def search(self, text: str, query: NDArray[np.float32], k: int) -> Ranking:
        """The best passages of one query. *Shape:* query (1, d) -> (1, at most k) both."""
        depth = min(max(self.depth, k), self.dense.passages)
        return self.fuse(text, self.dense.search(query, depth), k)

    def fuse(self, text: str, found: Ranking, k: int) -> Ranking:
        """Fuse what the dense index found for one query with what BM25 finds. *Shape:* found (1, depth) both."""
        fusion = Fusion.of(found, self._lexical(text, found[0].shape[1]))
        return best(fusion.passages, fusion.scores(self.setting), k)

    def _lexical(self, text: str, depth: int) -> Ranking:
        """BM25's best passages that are still there, as dense rows, padded with -1. *Shape:* (1, depth) both."""
        rows, scores = self.lexical.search([text], depth + self._deleted)
        rows = np.where(rows < 0, -1, self.dense_rows[rows])
        order = np.argsort(rows < 0, axis=1, kind="stable")[:, :depth]
        rows, scores = np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)
        return rows, np.where(rows < 0, np.float32(0), scores)
