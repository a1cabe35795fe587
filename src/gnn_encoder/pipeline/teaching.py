"""The teacher's scores, by models and candidates where they lie."""

from pathlib import Path

import numpy as np
import polars as pl

from gnn_encoder.base.judgements import Identical, relevant_pairs
from gnn_encoder.base.matrix import open_matrix
from gnn_encoder.base.tables import count_rows
from gnn_encoder.data.answers import with_answered
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.opening import embed_table, open_passages, open_queries
from gnn_encoder.pipeline.params import Params
from gnn_encoder.search.exact import exact_top_k
from gnn_encoder.text.cross_encoder import CrossEncoder, score_pairs
from gnn_encoder.text.inputs import Inputs
from gnn_encoder.training.denoise import Ranks
from gnn_encoder.training.dev import sample_queries
from gnn_encoder.training.teacher import Teacher, chosen_of, dot_products, fit_teacher, with_labels


def teacher_scores(
    lists: pl.DataFrame,
    queries: Path,
    work: Path,
    ranks: Ranks,
    params: Params,
    *,
    cross_encoder: Path,
    max_length: int,
    title: str,
) -> pl.DataFrame:
    """Add the teacher's scores to passages of some queries: `combined` and `score`, as `Teacher.score` has them.

    Args:
        lists: columns query, passage, listed; those that are `listed` were chosen from the first retriever's passages.
        queries: the table whose rows they are.
        work: scratch folder; pairs that an interrupted run scored are not scored again.
        ranks: those of the first retriever's passages that are among the lists of dev queries.
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
        teacher = fit_teacher(score(*_dev_lists(ranks, params), work / "dev"), title=title)
    return teacher.score(score(lists, queries, work / "lists"))


def _retriever_scores(lists: pl.DataFrame, queries: Path, params: Params) -> pl.Series:
    """The first retriever's scores of passages of some queries, columns query, passage."""
    rows, asked = np.unique(lists["query"].to_numpy().astype(np.int64), return_inverse=True)
    embedded, matrix = embed_table("retriever", queries, params.encoder, rows), project.embeddings("retriever")
    return pl.Series(dot_products(embedded, asked, open_matrix(matrix), lists["passage"].to_numpy()))


def _dev_lists(ranks: Ranks, params: Params) -> tuple[pl.DataFrame, Path]:
    """The candidates of the sampled dev queries that `ranks` chooses, with labels, and the table of the queries."""
    queries = project.queries("dev")
    pairs = relevant_pairs(queries, project.POSITIVES, project.PASSAGES)
    rows = sample_queries(pairs, params.dev.queries, params.seed)
    asked = embed_table("retriever", queries, params.encoder, rows)
    depth = min(ranks.last, count_rows(project.PASSAGES))
    retrieved, _ = exact_top_k(project.embeddings("retriever"), asked, depth)
    chosen = chosen_of(rows, retrieved, ranks)
    relevant = with_answered(pairs, chosen, queries, project.PASSAGES, params.evaluate.answers)
    ordered = chosen.with_columns(rank=pl.int_range(pl.len()).over("query"))
    chosen = Identical.read(project.IDENTICAL, "dev").distinct(ordered, relevant).drop("rank")
    return with_labels(chosen, relevant), queries
