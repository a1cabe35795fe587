"""Candidates of many queries: searched for, spread over the ranks, scored by a teacher, and denoised (section 3.4).

The teacher's score of a query's passages is M_ce's logit, with or without the retriever's score:

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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from gnn_encoder.base.judgements import Identical, relevant_pairs
from gnn_encoder.base.matrix import Matrix, Rows, Scores, open_matrix, pair_scores, resume_windows
from gnn_encoder.base.tables import CANDIDATES, candidates_table, count_rows, open_table, read_table, write_part
from gnn_encoder.data.answers import with_answered
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Denoise, Params
from gnn_encoder.search.exact import exact_top_k
from gnn_encoder.text.batches import Inputs
from gnn_encoder.text.corpus import embed_table, open_passages, open_queries
from gnn_encoder.text.cross_encoder import CrossEncoder, score_pairs
from gnn_encoder.train.dev import retrieved_pairs, sample_queries
from gnn_encoder.train.examples import examples_table

log = logging.getLogger(__name__)
WINDOW = 16_384  # queries of a window: each reads all passages once, in parts of 4,096 queries, which FAISS multiplies
Floats = NDArray[np.float64]
FEATURES = ("logit", "retrieved")
RIDGE = 1e-4  # keeps the numbers finite where the labels can be told apart without error
Searched = TypeVar("Searched", Matrix, list[str])  # queries as vectors or as texts


def find_candidates(
    find: Callable[[Searched], tuple[Rows, Scores]],
    queries: Searched,
    folder: Path,
    identical: Identical,
    pairs: pl.DataFrame,
    *,
    label: str,
) -> Iterator[pa.Table]:
    """Search for all queries that `folder` has no candidates of yet, and read those of all, window by window.

    A kill keeps the windows that are done, and ranks share them. `find` gives the best passages of some queries and
    their scores, as `candidates_table` takes them; `identical` and `pairs` say which of them `distinct` leaves out.
    """

    def search(numbers: Iterator[int]) -> Iterator[tuple[int, pl.DataFrame]]:
        for number in numbers:
            first = number * WINDOW
            found = candidates_table(*find(queries[first : first + WINDOW]), first=first)
            yield number, identical.distinct(pl.DataFrame(found), pairs)

    def write(path: Path, number: int, found: pl.DataFrame) -> None:
        write_part(path, CANDIDATES, [found.to_arrow()])

    name = "candidates-{:06d}.parquet"
    files = resume_windows(folder, name, len(queries), WINDOW, search, write, label=label, unit="queries")
    return (read_table(file, CANDIDATES).to_arrow() for file in files)


def read_top(path: Path, ranks: int | None) -> pl.DataFrame:
    """The first `ranks` candidates of each query, from a CANDIDATES table that may hold many more; None: all."""
    open_table(path, CANDIDATES)
    table = pl.scan_parquet(path)
    return (table if ranks is None else table.filter(pl.col("rank") < ranks)).collect()


def spread(candidates: pl.DataFrame, depth: int, count: int) -> pl.DataFrame:
    """So many of each query's first `depth` candidates: most from the top, ever fewer below.

    The top holds most of the relevant passages, labelled or not, and of the negatives that are hard. Ranks are evenly
    spread on a logarithmic scale: 8 of the first 50 are 0, 1, 2, 4, 8, 15, 28, 49.
    """
    ranks = np.arange(min(count, depth))
    wanted = np.rint(np.geomspace(1, depth, len(ranks))).astype(np.int64) - 1 if count > 1 else ranks
    # Near the top the steps are below 1: each number is at least one above that before it.
    return candidates.filter(pl.col("rank").is_in(np.maximum(wanted, ranks).astype(np.int16).tolist()))


def to_score(candidates: pl.DataFrame, section: Denoise, pairs: pl.DataFrame | None = None) -> pl.DataFrame:
    """What a teacher scores: columns query, passage, listed. Some candidates are `listed`, other `pairs` are not."""
    chosen = spread(candidates, section.range_max, section.candidates).select("query", "passage", listed=pl.lit(True))
    if pairs is None:
        return chosen
    others = pairs.join(chosen, on=["query", "passage"], how="anti").with_columns(listed=pl.lit(False))
    return pl.concat([chosen, others]).sort("query", "passage")


def denoise(
    scored: pl.DataFrame,
    pairs: pl.DataFrame,
    *,
    positive_threshold: float,
    negative_threshold: float,
    relative: float | None = None,
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Turn scored candidates into the EXAMPLES table, with counts of queries, positives and negatives.

    Positives are the labelled passages and candidates scored above `positive_threshold`; negatives are unlabelled
    candidates scored below `negative_threshold`. A query without such a negative gets its lowest-scored unlabelled
    candidate that is not a positive, if there is one. A query none of whose passages is scored has null for negatives.

    With `relative` a negative scores below this share of its query's best labelled passage that is scored, instead of
    below `negative_threshold` (positive-aware mining: de Souza P. Moreira et al. 2024, arXiv:2407.15831), and never
    above `positive_threshold`. Queries without a scored labelled passage keep the threshold.

    `scored` has the columns query, passage, score (the teacher's, 0..1), and `pairs`, the labelled ones, the first two.
    """
    unlabelled = scored.join(pairs, on=["query", "passage"], how="anti")
    found = unlabelled.filter(pl.col("score") > positive_threshold).select("query", "passage")
    below = pl.lit(negative_threshold)
    if relative is not None:
        best = scored.join(pairs, on=["query", "passage"], how="semi").group_by("query").agg(best=pl.col("score").max())
        unlabelled = unlabelled.join(best, on="query", how="left")
        share = pl.min_horizontal(relative * pl.col("best"), positive_threshold)
        below = pl.when(pl.col("best").is_null()).then(negative_threshold).otherwise(share)
    hard = unlabelled.filter(pl.col("score") < below).select("query", "passage")
    rest = unlabelled.filter(pl.col("score") <= positive_threshold).join(hard, on="query", how="anti")
    fallback = (
        rest.sort("query", "score", "passage").group_by("query", maintain_order=True).first().select("query", "passage")
    )
    table = examples_table(*(pl.concat(both).sort("query", "passage") for both in ((pairs, found), (hard, fallback))))
    asked = pl.col("query").is_in(scored["query"].unique().implode())
    table = table.with_columns(negatives=pl.when(asked).then("negatives"))
    queries = scored["query"].n_unique()
    counts = {
        "queries": len(table),
        "queries_without_positive_left_out": queries - scored.join(table, on="query", how="semi")["query"].n_unique(),
        "queries_given_their_lowest_candidate_as_negative": len(fallback),
        "queries_without_negative": int((table["negatives"].list.len() == 0).sum()),
        "labelled_positives": len(pairs),
        "denoised_positives": len(found),
        "hard_negatives": len(hard),
        "candidates_between_the_thresholds": len(unlabelled) - len(found) - len(hard),
    }
    return table, counts


# --- the teacher ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Teacher:
    """The numbers of the teacher."""

    cross_encoder: float = 1.0  # a
    retriever: float = 0.0  # b
    standardised: bool = False
    scale: float = 1.0
    shift: float = 0.0

    def score(self, lists: pl.DataFrame) -> pl.DataFrame:
        """Add the columns `combined` (s) and `score` (p) to columns query, logit, listed and, for b, retrieved.

        Those that are `listed` were retrieved, and z is standardised over them alone.
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


def fit_teacher(lists: pl.DataFrame) -> Teacher:
    """The teacher of both scores that explains the labels: columns query, relevant, logit, retrieved of `lists`.

    Where no query has both a relevant and another candidate, it is M_ce alone.
    """
    rows = lists.sort("query", ~pl.col("relevant"))
    both = pl.col("relevant").any().over("query") & (~pl.col("relevant")).any().over("query")
    if not rows.select(both.any()).item():
        log.warning("warning: no dev query has a relevant and another candidate; M_ce's score stands as it is")
        return Teacher()
    deviation = rows.select(pl.col(FEATURES).cast(pl.Float64)).to_numpy().std(axis=0) + 1e-12
    weights = _least(_of_lists(rows.filter(both), deviation), np.ones(len(FEATURES))) / deviation
    if not weights.any():
        log.warning("warning: neither score tells relevant passages from others; M_ce's is taken")
        weights = np.array([1.0, 0.0]) / deviation
    found = Teacher(cross_encoder=float(weights[0]), retriever=float(weights[1]), standardised=True)
    z = found.score(rows.with_columns(listed=pl.lit(True))).select(standardised()).to_series().to_numpy()
    scale, shift = _least(_of_labels(z, rows["relevant"].to_numpy()), np.array([1.0, 0.0]), free=1)
    return replace(found, scale=float(scale), shift=float(shift))


def _of_lists(rows: pl.DataFrame, spread: Floats) -> Callable[[Floats], tuple[float, Floats]]:
    """Negative log-likelihood, with gradient, of each relevant passage against its query's other passages."""
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
    lists: pl.DataFrame, queries: Path, work: Path, params: Params, *, cross_encoder: Path, max_length: int
) -> pl.DataFrame:
    """Add `combined` and `score` (`Teacher.score`) to `lists`, as from `to_score`, whose queries are rows of `queries`.

    M_ce, in the folder `cross_encoder`, reads at most `max_length` tokens a pair; `work` keeps what it has scored.
    """
    model = CrossEncoder.load(cross_encoder, precision=params.encoder.precision).for_inference()
    passages, teacher, is_sum = open_passages(model), Teacher(), params.teacher.score == "sum"

    def score(lists: pl.DataFrame, queries: Path, folder: Path) -> pl.DataFrame:
        pairs = Inputs.of_table(lists, open_queries(queries, model), passages, model.template, max_length)
        logits = score_pairs(model, pairs, folder, params.encoder.batch_tokens)
        found = lists.with_columns(logit=pl.Series(logits), retrieved=0.0)
        return found.with_columns(retrieved=_retriever_scores(lists, queries, params)) if is_sum else found

    if is_sum:
        teacher = fit_teacher(score(*_dev_lists(params), work / "dev"))
    return teacher.score(score(lists, queries, work / "lists"))


def _retriever_scores(lists: pl.DataFrame, queries: Path, params: Params) -> pl.Series:
    """The first retriever's scores of passages of some queries, columns query, passage."""
    rows, asked = np.unique(lists["query"].to_numpy().astype(np.int64), return_inverse=True)
    embedded, matrix = embed_table("retriever", queries, params.encoder, rows), project.embeddings("retriever")
    return pl.Series(pair_scores(embedded, asked, open_matrix(matrix), lists["passage"].to_numpy()))


def _dev_lists(params: Params) -> tuple[pl.DataFrame, Path]:
    """Candidates of the sampled dev queries, chosen as `denoise` says, with labels; and the table of the queries."""
    queries, section = project.queries("dev"), params.denoise
    pairs = relevant_pairs(queries, project.POSITIVES, project.PASSAGES)
    rows = sample_queries(pairs, params.dev.queries, params.seed)
    asked = embed_table("retriever", queries, params.encoder, rows)
    depth = min(section.range_max, count_rows(project.PASSAGES))
    retrieved, _ = exact_top_k(project.embeddings("retriever"), asked, depth)
    ranks = pl.Series(np.tile(np.arange(depth, dtype=np.int16), len(rows)))
    chosen = to_score(retrieved_pairs(rows, retrieved).with_columns(rank=ranks), section).drop("listed")
    relevant = with_answered(pairs, chosen, queries, project.PASSAGES, params.evaluate.answers)
    ordered = chosen.with_columns(rank=pl.int_range(pl.len()).over("query"))
    chosen = Identical.read(project.IDENTICAL, "dev").distinct(ordered, relevant).drop("rank")
    labels = relevant.with_columns(relevant=pl.lit(True))
    labelled = chosen.join(labels, on=["query", "passage"], how="left", maintain_order="left")
    return labelled.with_columns(pl.col("relevant").fill_null(False)), queries
