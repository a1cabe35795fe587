"""One ranking of two: by a weighted sum of standardised scores, or by reciprocal ranks."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from gnn_encoder.baselines.choice import Setting
from gnn_encoder.baselines.rankings import NOTHING, taken, union
from gnn_encoder.core.rows import Rows, Scores

SCORES, RANKS = "scores", "reciprocal ranks"


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
    def of(cls, dense: tuple[Rows, Scores], lexical: tuple[Rows, Scores]) -> Self:
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


def settings(weights: list[float], ks: list[int]) -> list[Setting]:
    """All ways to fuse that are tried; of equally good ones the first is taken, which has the least of BM25."""
    by_scores: list[Setting] = [{"by": SCORES, "weight": weight} for weight in sorted(set(weights))]
    by_ranks: list[Setting] = [{"by": RANKS, "k": k} for k in sorted(set(ks))]
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
