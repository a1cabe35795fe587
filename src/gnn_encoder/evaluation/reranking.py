"""The ceiling for systems of one vector a passage: M_de's top passages reordered by a cross-encoder, and its time."""

import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gnn_encoder.core.judgements import relevant_pairs, with_rows
from gnn_encoder.core.runs import as_matrices, read_run, write_run
from gnn_encoder.core.storage.tables import read_column
from gnn_encoder.encoding.pairs import Pairs, encode_pairs, score_pairs
from gnn_encoder.encoding.tokens import TextTokens
from gnn_encoder.models.batch import Batch
from gnn_encoder.models.cross_encoder import CrossEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.opening import open_passages, open_queries
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.systems import CEILING, REFERENCE
from gnn_encoder.training.teacher import Teacher, fit_teacher

log = logging.getLogger(__name__)
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

    def scores(batch: Batch) -> Any:
        return model.scores(batch).unsqueeze(1)

    seconds = []
    for _, part in top.group_by("query", maintain_order=True):
        rows = {name: part[name].to_numpy().astype(np.int64) for name in ("query", "passage")}
        pairs = Pairs(first=queries, first_rows=rows["query"], second=passages, second_rows=rows["passage"])
        began = time.perf_counter()
        list(encode_pairs(model, pairs, [0], scores, max_length=max_length, batch_tokens=batch_tokens))
        seconds.append(time.perf_counter() - began)
        if len(seconds) == WARM_UP + TIMED_QUERIES:
            break
    return 1000 * float(np.median(seconds[WARM_UP if len(seconds) > WARM_UP else 0 :]))


def max_length(params: Params) -> int:
    """Limit on the tokens of a pair: the one that M_ce was trained with."""
    return params.train_cross_encoder.max_length


def score_split(split: str, model: Path, params: Params, work: Path) -> pl.DataFrame:
    """M_ce's logits of the passages at the top of M_de's run of a split.

    Args:
        model: folder of the cross-encoder.
        work: scratch folder; pairs that an interrupted call scored there are not scored again.

    Returns:
        Columns qid, query, passage, rank, retrieved (M_de's score) and logit, which is null below `rerank.depth`.
    """
    section, queries = params.rerank, project.queries(split)
    qids = sample_qids(pl.Series(read_column(queries, "qid")), section.queries, params.seed)
    found = read_run(project.run_file(REFERENCE, split)).filter(pl.col("qid").is_in(qids.implode()))
    rows = with_rows(found, queries, project.PASSAGES).sort("query", "rank")
    rows = rows.select("qid", "query", "passage", "rank", retrieved="score")
    top = rows.filter(pl.col("rank") <= section.depth).select("query", "passage")
    length = max_length(params)
    teacher = CrossEncoder.load(model, precision=params.encoder.precision).for_inference()
    pairs = Pairs.of(top, open_queries(queries, teacher), open_passages(teacher))
    logits = score_pairs(teacher, pairs, work, max_length=length, batch_tokens=params.encoder.batch_tokens)
    return rows.join(top.with_columns(logit=logits), on=["query", "passage"], how="left", maintain_order="left")


def teacher_of(dev: pl.DataFrame, params: Params) -> Teacher:
    """What the order goes by: as `teacher.score` says, with M_de in the first retriever's place, fitted on dev.

    Args:
        dev: what `score_split` gives for dev.
    """
    if params.teacher.score == "cross_encoder":
        return Teacher()
    pairs = relevant_pairs(project.queries("dev"), project.POSITIVES, project.PASSAGES)
    labelled = pairs.select("query", "passage", relevant=pl.lit(True))
    lists = dev.drop_nulls("logit").join(labelled, on=["query", "passage"], how="left", maintain_order="left")
    lists = lists.with_columns(pl.col("relevant").fill_null(False))
    return fit_teacher(lists, with_retriever=params.teacher.score == "sum", title=CEILING)


def write_reranked(rows: pl.DataFrame, teacher: Teacher, target: Path) -> None:
    """Write the run in the teacher's order.

    Args:
        rows: what `score_split` gives.
        target: file of the run.
    """
    top = rows.drop_nulls("logit")
    scored = teacher.score(top.with_columns(listed=pl.lit(True))).select("query", "passage", "score")
    asked = rows.select("qid", "query").unique(maintain_order=True)
    ranked = reorder(rows.select("query", "passage", "rank"), scored)
    passages, scores = as_matrices(ranked, asked["query"].to_numpy())
    write_run(target, asked["qid"].to_list(), read_column(project.PASSAGES, "pid"), passages, scores, CEILING)


def time_a_query(scored: pl.DataFrame, folder: Path, params: Params) -> float:
    """Milliseconds that the cross-encoder takes for a dev query's passages, without the time of M_de's search."""
    model = CrossEncoder.load(folder, precision=params.encoder.precision).for_inference()
    spent = milliseconds(
        model,
        scored,
        open_queries(project.queries("dev"), model),
        open_passages(model),
        max_length=max_length(params),
        batch_tokens=params.encoder.batch_tokens,
    )
    log.info("%s: %.0f ms a query, beside M_de's search", CEILING, spent)
    return spent
