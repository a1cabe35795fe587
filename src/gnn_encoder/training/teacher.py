"""The teacher's score of a query's passages: M_ce's logit, with or without the retriever's score.

    s(q, p) = a logit(q, p) + b retrieved(q, p)
    p(q, p) = sigmoid(scale z(q, p) + shift),    z: s, standardised over the query's candidates

The papers' teacher is M_ce alone: a = scale = 1, b = shift = 0 and z = s. Other numbers are fitted on labelled dev
queries. Thresholds apply to p, and the softmax of s over a query's passages is its soft target.

Which of a query's candidates is relevant decides the weights: they maximise the likelihood of each relevant candidate
against the query's other candidates, as in the listwise loss. Then `scale` and `shift` maximise the likelihood of all
labels (Platt 1999), so that of the candidates that score 0.9, nine in ten are labelled.

The candidates must be drawn as those that the teacher will score. Labelled passages are to be added to neither: a
retriever would look worse than chance where relevant passages stand beside others that it has picked itself.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from gnn_encoder.base.matrix import Matrix, Rows, Scores, gather
from gnn_encoder.training.denoise import Ranks, spread
from gnn_encoder.training.dev import retrieved_pairs

log = logging.getLogger(__name__)
Floats = NDArray[np.float64]
FEATURES = ("logit", "retrieved")
RIDGE = 1e-4  # keeps the numbers finite where the labels can be told apart without error
AT_A_TIME = 8_192  # candidates whose embeddings are in memory together


@dataclass(frozen=True, kw_only=True)
class Teacher:
    """The numbers of the teacher."""

    cross_encoder: float = 1.0  # a
    retriever: float = 0.0  # b
    standardised: bool = False
    scale: float = 1.0
    shift: float = 0.0

    def score(self, lists: pl.DataFrame) -> pl.DataFrame:
        """Add the columns `combined` (s) and `score` (p) to passages of some queries.

        Args:
            lists: columns query, logit (M_ce's), retrieved (the retriever's score; null if the teacher does not read
                it), and listed: whether the passage is one of the candidates that z is standardised over. The labelled
                passages that were not retrieved are not among them.
        """
        combined = self.cross_encoder * pl.col("logit").cast(pl.Float64)
        if self.retriever:
            combined = combined + self.retriever * pl.col("retrieved").cast(pl.Float64)
        found = lists.with_columns(combined=combined)
        log_odds = self.scale * (standardised() if self.standardised else pl.col("combined")) + self.shift
        return found.with_columns(
            pl.col("combined").cast(pl.Float32), score=(1 / (1 + (-log_odds).exp())).cast(pl.Float32)
        )


def standardised() -> pl.Expr:
    """The column `combined` minus its mean over the query's candidates, in units of their standard deviation.

    Where all candidates score alike, or there is but one, it is 0.
    """
    listed = pl.col("combined").filter(pl.col("listed"))
    spread = listed.std(ddof=0).over("query")
    z = (pl.col("combined") - listed.mean().over("query")) / spread
    return pl.when(spread > 1e-9).then(z).otherwise(0.0)


def fit_teacher(lists: pl.DataFrame, *, title: str) -> Teacher:
    """The teacher of both scores that explains the labels of some queries.

    Where no query has both a relevant and another candidate, it is M_ce alone.

    Args:
        lists: columns query, relevant, logit (M_ce's), retrieved (the retriever's score), and rows in any order.
        title: what is fitted, in the log.
    """
    rows = lists.sort("query", ~pl.col("relevant"))
    both = pl.col("relevant").any().over("query") & (~pl.col("relevant")).any().over("query")
    if not rows.select(both.any()).item():
        log.warning(
            "warning: %s: no dev query has a relevant and another candidate; M_ce's score stands as it is", title
        )
        return Teacher()
    spread = rows.select(pl.col(FEATURES).cast(pl.Float64)).to_numpy().std(axis=0) + 1e-12
    weights = _least(_of_lists(rows.filter(both), spread), np.ones(len(FEATURES))) / spread
    if not weights.any():
        log.warning("warning: %s: neither score tells relevant passages from others; M_ce's is taken", title)
        weights = np.array([1.0, 0.0]) / spread
    found = Teacher(cross_encoder=float(weights[0]), retriever=float(weights[1]), standardised=True)
    z = found.score(rows.with_columns(listed=pl.lit(True))).select(standardised()).to_series().to_numpy()
    scale, shift = _least(_of_labels(z, rows["relevant"].to_numpy()), np.array([1.0, 0.0]), free=1)
    return replace(found, scale=float(scale), shift=float(shift))


def _of_lists(rows: pl.DataFrame, spread: Floats) -> Callable[[Floats], tuple[float, Floats]]:
    """Negative log-likelihood of each relevant passage against the passages of its query that are not, and gradient."""
    parts = rows.partition_by("query", maintain_order=True)
    lists = [(part.select(FEATURES).to_numpy() / spread, int(part["relevant"].sum())) for part in parts]
    total = sum(relevant for _, relevant in lists)

    def loss(weights: Floats) -> tuple[float, Floats]:
        value, gradient = 0.0, np.zeros_like(weights)
        for features, relevant in lists:
            scores = features @ weights
            others = features[relevant:]
            for positive in range(relevant):
                logits = np.concatenate([scores[positive : positive + 1], scores[relevant:]])
                odds = np.exp(logits - logits.max())
                odds /= odds.sum()
                value -= np.log(odds[0] + 1e-300)
                gradient += odds[1:] @ others - (1 - odds[0]) * features[positive]
        return value / total, gradient / total

    return loss


def _of_labels(scores: Floats, relevant: NDArray[np.bool_]) -> Callable[[Floats], tuple[float, Floats]]:
    """Negative log-likelihood of all labels, and its gradient."""

    def loss(numbers: Floats) -> tuple[float, Floats]:
        logits = numbers[0] * scores + numbers[1]
        missed = expit(logits) - relevant
        value = np.mean(np.logaddexp(0, logits) - relevant * logits)
        return float(value), np.array([np.mean(missed * scores), np.mean(missed)])

    return loss


def _least(loss: Callable[[Floats], tuple[float, Floats]], start: Floats, free: int = 0) -> Floats:
    """The numbers of the least loss; all but the last `free` ones are weights, which are not below 0."""

    def with_ridge(numbers: Floats) -> tuple[float, Floats]:
        value, gradient = loss(numbers)
        return value + RIDGE * float(numbers @ numbers), gradient + 2 * RIDGE * numbers

    bounds = [(0, None)] * (len(start) - free) + [(None, None)] * free
    found: Floats = minimize(with_ridge, start, jac=True, bounds=bounds, method="L-BFGS-B").x
    return found


def dot_products(queries: Matrix, asked: Rows, matrix: NDArray[Any], passages: Rows) -> Scores:
    """The dot products of pairs: row `asked[i]` of `queries` with row `passages[i]` of `matrix`, some at a time.

    *Shape:* queries (q, d), matrix (m, d), asked, passages (n,) -> (n,).
    """
    found = np.empty(len(passages), dtype=np.float32)
    for first in range(0, len(found), AT_A_TIME):
        part = slice(first, first + AT_A_TIME)
        found[part] = np.einsum("nd,nd->n", queries[asked[part]], gather(matrix, passages[part]).astype(np.float32))
    return found


def chosen_of(rows: Rows, retrieved: Rows, ranks: Ranks) -> pl.DataFrame:
    """The retrieved passages that `ranks` chooses: columns query, passage. *Shape:* rows (n,), retrieved (n, depth)."""
    rank = np.tile(np.arange(retrieved.shape[1], dtype=np.int16), len(rows))
    return spread(retrieved_pairs(rows, retrieved).with_columns(rank=pl.Series(rank)), ranks).drop("rank")


def with_labels(lists: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Passages of some queries with the column `relevant`: whether they are among `pairs`. Both: query, passage."""
    relevant = pairs.with_columns(relevant=pl.lit(True))
    joined = lists.join(relevant, on=["query", "passage"], how="left", maintain_order="left")
    return joined.with_columns(pl.col("relevant").fill_null(False))
