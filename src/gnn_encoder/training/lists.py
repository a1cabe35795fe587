"""Lists of candidates that the teacher scores: of queries that train, and of dev queries that it is fitted on."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gnn_encoder.answers.pairs import answered, judged_by_answers
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.storage.tables import candidates_table, count_rows
from gnn_encoder.encoding.scoring import cross_encoder_logits, retriever_scores
from gnn_encoder.index.candidates import top_passages
from gnn_encoder.models.teacher import Teacher
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.training.denoise import Ranks, spread
from gnn_encoder.training.dev import sample_queries
from gnn_encoder.training.teacher import fit_teacher


def score_lists(
    lists: pl.DataFrame,
    queries: Path,
    work: Path,
    *,
    ranks: Ranks,
    model: Path,
    max_length: int,
    params: Params,
    title: str,
) -> pl.DataFrame:
    """Add the teacher's scores to passages of some queries: `combined` and `score`, as `Teacher.score` has them.

    Args:
        lists: columns query, passage, listed; rows of the table `queries` and of the passages. Those that are `listed`
            were chosen by `ranks` from the first retriever's passages.
        work: scratch folder; pairs that an interrupted run scored are not scored again.
        model: folder of M_ce.
        max_length: most tokens of a pair.
        title: what is fitted, in the log.
    """
    limits = {"model": model, "max_length": max_length, "encoder": params.encoder}
    teacher = Teacher()
    if params.teacher.score != "cross_encoder":
        dev = _with_scores(dev_lists(ranks, params), project.queries("dev"), work / "dev", params, **limits)
        teacher = fit_teacher(dev, with_retriever=params.teacher.score == "sum", title=title)
    return teacher.score(_with_scores(lists, queries, work / "lists", params, **limits))


def dev_lists(ranks: Ranks, params: Params) -> pl.DataFrame:
    """The candidates of the sampled dev queries that `ranks` chooses: columns query, passage, relevant."""
    queries = project.queries("dev")
    pairs = relevant_pairs(queries, project.POSITIVES, project.PASSAGES)
    rows = sample_queries(pairs, params.dev.queries, params.seed)
    depth = min(ranks.last, count_rows(project.PASSAGES))
    found = pl.DataFrame(candidates_table(*top_passages("retriever", queries, depth, params, name="", rows=rows)))
    numbered = found.with_columns(query=pl.Series(rows.astype(np.int32)).gather(found["query"]))
    chosen = spread(numbered, ranks).select("query", "passage")
    if judged_by_answers(queries):
        pairs = pl.concat([pairs, answered(chosen, queries, project.PASSAGES, params.evaluate.answers)]).unique()
    relevant = pairs.with_columns(relevant=pl.lit(True))
    joined = chosen.join(relevant, on=["query", "passage"], how="left", maintain_order="left")
    return joined.with_columns(pl.col("relevant").fill_null(False))


def _with_scores(lists: pl.DataFrame, queries: Path, work: Path, params: Params, **limits: Any) -> pl.DataFrame:
    """Add M_ce's logits and, if the teacher reads them, the first retriever's scores."""
    found = lists.with_columns(logit=pl.Series(cross_encoder_logits(lists, queries, work, **limits)), retrieved=0.0)
    if params.teacher.score != "sum":
        return found
    return found.with_columns(retrieved=pl.Series(retriever_scores(lists, queries, params.encoder)))
