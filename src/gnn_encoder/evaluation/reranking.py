"""The ceiling for systems of one vector a passage: M_de's top passages reordered by a cross-encoder, and its time."""

import time
from pathlib import Path

import numpy as np
import polars as pl

from gnn_encoder.base.judgements import with_rows
from gnn_encoder.base.runs import as_matrices
from gnn_encoder.base.tables import read_column
from gnn_encoder.pipeline.params import TeacherScore
from gnn_encoder.text.cross_encoder import CrossEncoder
from gnn_encoder.text.inputs import Inputs, encode_rows
from gnn_encoder.text.tokens import TextTokens
from gnn_encoder.train.teacher import Teacher, fit_teacher, with_labels

TIMED_QUERIES = 20
WARM_UP = 3  # queries scored before those that are timed


def sample_qids(qids: pl.Series, count: int | None, seed: int) -> pl.Series:
    """A fixed random sample of `count` ids in their own order; all ids where there are no more."""
    if count is None or count >= len(qids):
        return qids
    chosen = np.random.default_rng(seed).permutation(len(qids))[:count]
    return qids.gather(np.sort(chosen))


def reorder(run: pl.DataFrame, scored: pl.DataFrame) -> pl.DataFrame:
    """Rank the scored passages of each query by score, equal scores in the old order; the other passages follow.

    Args:
        run: columns query, passage, rank.
        scored: columns query, passage, score (0..1), the first passages of `run`.

    Returns:
        Columns query, passage, rank, score; the score of a passage that was not scored is minus its rank.
    """
    found = run.join(scored, on=["query", "passage"], how="left", maintain_order="left")
    found = found.sort("query", "score", "rank", descending=[False, True, False], nulls_last=True)
    rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over("query")
    return found.with_columns(rank=rank).with_columns(pl.col("score").fill_null(-pl.col("rank")))


def milliseconds(
    model: CrossEncoder,
    top: pl.DataFrame,
    queries: TextTokens,
    passages: TextTokens,
    *,
    max_length: int,
    batch_tokens: int,
) -> float:
    """Median milliseconds of scoring one query's passages, which are tokenised already; one query at a time.

    Args:
        top: columns query, passage.
    """
    seconds = []
    for _, part in top.group_by("query", maintain_order=True):
        pairs = Inputs.of_table(part, queries, passages, model.template, max_length)
        began = time.perf_counter()
        encode_rows(pairs, np.arange(len(pairs)), model.column_of_logits, batch_tokens, 1)
        seconds.append(time.perf_counter() - began)
        if len(seconds) == WARM_UP + TIMED_QUERIES:
            break
    return 1000 * float(np.median(seconds[WARM_UP if len(seconds) > WARM_UP else 0 :]))


def retrieved(run: pl.DataFrame, queries: Path, passages: Path, *, sample: int | None, seed: int) -> pl.DataFrame:
    """What M_de found for a sample of the queries, by rows of the tables.

    Args:
        run: M_de's, columns qid, pid, rank, score.
        sample: number of queries; None: all.

    Returns:
        Columns qid, query, passage, rank, retrieved (M_de's score).
    """
    qids = sample_qids(pl.Series(read_column(queries, "qid")), sample, seed)
    rows = with_rows(run.filter(pl.col("qid").is_in(qids.implode())), queries, passages).sort("query", "rank")
    return rows.select("qid", "query", "passage", "rank", retrieved="score")


def teacher_of(dev: pl.DataFrame, pairs: pl.DataFrame, section: TeacherScore, title: str) -> Teacher:
    """What the order goes by: as `teacher.score` says, with M_de in the first retriever's place, fitted on dev.

    Args:
        dev: the dev queries' rows of `retrieved` with their logits.
        pairs: relevant pairs of the dev queries, columns query, passage.
        title: what is fitted, in the log.
    """
    if section.score == "cross_encoder":
        return Teacher()
    return fit_teacher(with_labels(dev.drop_nulls("logit"), pairs), title=title)


def rerank(rows: pl.DataFrame, teacher: Teacher) -> tuple[list[str], np.ndarray, np.ndarray]:
    """The queries' ids, and their passages and scores in the teacher's order. *Shape:* (q,), (q, k), (q, k).

    Args:
        rows: rows of `retrieved` with M_ce's logit, which is null for passages that are not reordered.
    """
    top = rows.drop_nulls("logit")
    scored = teacher.score(top.with_columns(listed=pl.lit(True))).select("query", "passage", "score")
    asked = rows.select("qid", "query").unique(maintain_order=True)
    ranked = reorder(rows.select("query", "passage", "rank"), scored)
    return asked["qid"].to_list(), *as_matrices(ranked, asked["query"].to_numpy())
