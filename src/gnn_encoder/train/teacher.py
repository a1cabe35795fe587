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
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from gnn_encoder.base.judgements import Identical, relevant_pairs
from gnn_encoder.base.matrix import gather, open_matrix
from gnn_encoder.base.tables import count_rows
from gnn_encoder.data.answers import with_answered
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.search.exact import exact_top_k
from gnn_encoder.text.batches import Inputs
from gnn_encoder.text.corpus import embed_table, open_passages, open_queries
from gnn_encoder.text.cross_encoder import CrossEncoder, score_pairs
from gnn_encoder.train.candidates import retrieved_pairs, sample_queries, spread

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
    deviation = listed.std(ddof=0).over("query")
    z = (pl.col("combined") - listed.mean().over("query")) / deviation
    return pl.when(deviation > 1e-9).then(z).otherwise(0.0)


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
    deviation = rows.select(pl.col(FEATURES).cast(pl.Float64)).to_numpy().std(axis=0) + 1e-12
    weights = _least(_of_lists(rows.filter(both), deviation), np.ones(len(FEATURES))) / deviation
    if not weights.any():
        log.warning("warning: %s: neither score tells relevant passages from others; M_ce's is taken", title)
        weights = np.array([1.0, 0.0]) / deviation
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


def teacher_scores(
    lists: pl.DataFrame,
    queries: Path,
    work: Path,
    params: Params,
    *,
    cross_encoder: Path,
    max_length: int,
    title: str,
) -> pl.DataFrame:
    """Add the teacher's scores to passages of some queries: `combined` and `score`, as `Teacher.score` has them.

    Args:
        lists: columns query, passage, listed; those that are `listed` were chosen from the first retriever's passages,
            as `denoise` says.
        queries: the table whose rows they are.
        work: scratch folder; pairs that an interrupted run scored are not scored again.
        cross_encoder: folder of M_ce.
        max_length: most tokens of a pair.
        title: what is fitted, in the log.
    """
    model = CrossEncoder.load(cross_encoder, precision=params.encoder.precision).for_inference()
    passages, teacher, is_sum = open_passages(model), Teacher(), params.teacher.score == "sum"

    def score(lists: pl.DataFrame, queries: Path, folder: Path) -> pl.DataFrame:
        """Add the columns `logit`, M_ce's, and `retrieved`, the first retriever's score, or 0 where none is read."""
        pairs = Inputs.of_table(lists, open_queries(queries, model), passages, model.template, max_length)
        logits = score_pairs(model, pairs, folder, params.encoder.batch_tokens)
        found = lists.with_columns(logit=pl.Series(logits), retrieved=0.0)
        return found.with_columns(retrieved=_retriever_scores(lists, queries, params)) if is_sum else found

    if is_sum:
        teacher = fit_teacher(score(*_dev_lists(params), work / "dev"), title=title)
    return teacher.score(score(lists, queries, work / "lists"))


def _retriever_scores(lists: pl.DataFrame, queries: Path, params: Params) -> pl.Series:
    """The first retriever's scores of passages of some queries, columns query, passage."""
    rows, asked = np.unique(lists["query"].to_numpy().astype(np.int64), return_inverse=True)
    embedded = embed_table("retriever", queries, params.encoder, rows)
    matrix, passages = open_matrix(project.embeddings("retriever")), lists["passage"].to_numpy()
    found = np.empty(len(passages), dtype=np.float32)
    for first in range(0, len(found), AT_A_TIME):
        part = slice(first, first + AT_A_TIME)
        found[part] = np.einsum("nd,nd->n", embedded[asked[part]], gather(matrix, passages[part]).astype(np.float32))
    return pl.Series(found)


def _dev_lists(params: Params) -> tuple[pl.DataFrame, Path]:
    """Candidates of the sampled dev queries, chosen as `denoise` says, with labels; and the table of the queries."""
    queries, section = project.queries("dev"), params.denoise
    pairs = relevant_pairs(queries, project.POSITIVES, project.PASSAGES)
    rows = sample_queries(pairs, params.dev.queries, params.seed)
    asked = embed_table("retriever", queries, params.encoder, rows)
    depth = min(section.range_max, count_rows(project.PASSAGES))
    retrieved, _ = exact_top_k(project.embeddings("retriever"), asked, depth)
    ranks = pl.Series(np.tile(np.arange(depth, dtype=np.int16), len(rows)))
    chosen = spread(retrieved_pairs(rows, retrieved).with_columns(rank=ranks), section.range_max, section.candidates)
    chosen = chosen.drop("rank")
    relevant = with_answered(pairs, chosen, queries, project.PASSAGES, params.evaluate.answers)
    ordered = chosen.with_columns(rank=pl.int_range(pl.len()).over("query"))
    chosen = Identical.read(project.IDENTICAL, "dev").distinct(ordered, relevant).drop("rank")
    return with_labels(chosen, relevant), queries


def with_labels(lists: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Passages of some queries with the column `relevant`: whether they are among `pairs`. Both: query, passage."""
    relevant = pairs.with_columns(relevant=pl.lit(True))
    joined = lists.join(relevant, on=["query", "passage"], how="left", maintain_order="left")
    return joined.with_columns(pl.col("relevant").fill_null(False))
