"""Fits the teacher on labelled dev queries: how much M_ce and the retriever count, and what its score means.

Which of a query's candidates is relevant decides the weights: they maximise the likelihood of each relevant candidate
against the query's other candidates, as in the listwise loss. Then `scale` and `shift` maximise the likelihood of all
labels (Platt 1999), so that of the candidates that score 0.9, nine in ten are labelled.

The candidates must be drawn as those that the teacher will score. Labelled passages are to be added to neither: a
retriever would look worse than chance where relevant passages stand beside others that it has picked itself.
"""

import logging
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from gnn_encoder.models.teacher import Teacher, standardised
from gnn_encoder.training.dev_score import reranked_reciprocal_rank

log = logging.getLogger(__name__)
Floats = NDArray[np.float64]
RIDGE = 1e-4  # keeps the numbers finite where the labels can be told apart without error


def fit_teacher(lists: pl.DataFrame, *, with_retriever: bool, title: str) -> Teacher:
    """The teacher that explains the labels of some queries.

    Args:
        lists: columns query, relevant, logit (M_ce's), retrieved (the retriever's score), and rows in any order.
        with_retriever: whether the retriever's score is read.
        title: what is fitted, in the log.

    Where no query has both a relevant and another candidate, it is M_ce alone.
    """
    rows = lists.sort("query", ~pl.col("relevant"))
    both = pl.col("relevant").any().over("query") & (~pl.col("relevant")).any().over("query")
    if not rows.select(both.any()).item():
        log.warning(
            "warning: %s: no dev query has a relevant and another candidate; M_ce's score stands as it is", title
        )
        return Teacher()
    columns = ["logit", "retrieved"] if with_retriever else ["logit"]
    spread = rows.select(pl.col(columns).cast(pl.Float64)).to_numpy().std(axis=0) + 1e-12
    weights = _least(_of_lists(rows.filter(both), columns, spread), np.ones(len(columns))) / spread
    if not weights.any():
        log.warning("warning: %s: neither score tells relevant passages from others; M_ce's is taken", title)
        weights = np.eye(len(columns))[0] / spread
    found = Teacher(
        cross_encoder=float(weights[0]), retriever=float(weights[1]) if with_retriever else 0.0, standardised=True
    )
    scored = found.score(rows.with_columns(listed=pl.lit(True)))
    z = scored.select(standardised()).to_series().to_numpy()
    scale, shift = _least(_of_labels(z, rows["relevant"].to_numpy()), np.array([1.0, 0.0]), free=1)
    _tell(found, scored, title)
    return replace(found, scale=float(scale), shift=float(shift))


def _of_lists(rows: pl.DataFrame, columns: list[str], spread: Floats) -> Callable[[Floats], tuple[float, Floats]]:
    """Negative log-likelihood of each relevant passage against the passages of its query that are not, and gradient."""
    parts = rows.partition_by("query", maintain_order=True)
    lists = [(part.select(columns).to_numpy() / spread, int(part["relevant"].sum())) for part in parts]
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


def _tell(found: Teacher, rows: pl.DataFrame, title: str) -> None:
    scores = {"M_ce": "logit", "the retriever": "retrieved", "both": "combined"}
    told = [
        f"{name} {reranked_reciprocal_rank(rows.with_columns(score=pl.col(column))):.4f}"
        for name, column in scores.items()
    ]
    log.info(
        "%s: of its candidates' order, dev RR@10 by %s", title, ", by ".join(told if found.retriever else told[:2])
    )
