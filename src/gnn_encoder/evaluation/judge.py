"""Measures a run: passages are judged by qrels or, where queries have answers, by whether they hold an answer."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from gnn_encoder.answers.matching import Kind
from gnn_encoder.answers.pairs import answered, judged_by_answers
from gnn_encoder.core.errors import UserError
from gnn_encoder.core.judgements import relevant_pairs, with_rows
from gnn_encoder.core.records import QRELS, open_table
from gnn_encoder.core.rows import Rows
from gnn_encoder.core.runs import read_run
from gnn_encoder.core.storage.tables import count_rows, read_column
from gnn_encoder.evaluation.documents import as_documents, best_passages, judged_documents
from gnn_encoder.evaluation.measures import answer_depth, cutoff, mean, per_query
from gnn_encoder.evaluation.params import Evaluate
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.systems import registry


def measure_split(run: pl.DataFrame, split: str, names: Sequence[str], section: Evaluate) -> pl.DataFrame:
    """Measure a run of a split's queries; the values have the form of `per_query`.

    With `evaluate.by: document` the run is one of documents, each with the rank of its best passage. A document is
    relevant if it is judged so or, where answers judge the split, if its best passage holds one.

    Raises:
        UserError: what `per_query` and `measure_by_answers` raise.
    """
    queries, by_document = project.queries(split), section.by == "document"
    if by_document:
        run = best_passages(run)
    if judged_by_answers(queries):
        return measure_by_answers(run, names, queries, project.PASSAGES, section.answers)
    qrels = pl.DataFrame(open_table(project.qrels(split), QRELS).read())
    if by_document:
        run, qrels = as_documents(run), judged_documents(qrels)
    return per_query(run, qrels, names)


def judged_queries(split: str) -> Rows:
    """Rows of the queries of a split that count: those with a relevant passage; all, where answers judge it."""
    queries = project.queries(split)
    if judged_by_answers(queries):
        return np.arange(count_rows(queries))
    rows: Rows = relevant_pairs(queries, project.qrels(split), project.PASSAGES)["query"].unique().sort().to_numpy()
    return rows


def measure_rankings(rankings: Iterable[Rows], rows: Rows, split: str, name: str, section: Evaluate) -> list[float]:
    """The mean of one measure over some queries of a split, for each of several rankings.

    The values are those of `measure_split`, but whether a passage holds an answer is looked up once for all rankings.

    Args:
        rankings: rows of passages, best first, -1 where there is none. *Shape:* (n, k) each.
        rows: the queries, among those that `judged_queries` lists. *Shape:* (n,).

    Raises:
        UserError: what `measure_split` raises.
    """
    queries, by_document = project.queries(split), section.by == "document"
    qids = pl.Series(read_column(queries, "qid")).gather(rows)
    pids = read_column(project.PASSAGES, "pid")
    runs = [_run(ranking, qids, pids, cutoff(name), by_document) for ranking in rankings]
    if judged_by_answers(queries):
        answer_depth([name], "evaluate.significance")
        held = pl.concat(runs).select("qid", "pid").unique(maintain_order=True)
        hits = answered(with_rows(held, queries, project.PASSAGES), queries, project.PASSAGES, section.answers)
        qrels, asked = hits.select("qid", "pid", grade=1), qids
    else:
        qrels = pl.DataFrame(open_table(project.qrels(split), QRELS).read())
        qrels, asked = qrels.filter(pl.col("qid").is_in(qids.implode())), None
        if by_document:
            runs, qrels = [as_documents(run) for run in runs], judged_documents(qrels)
    return [mean(per_query(run, qrels, [name], queries=asked))[name] for run in runs]


def _run(ranking: Rows, qids: pl.Series, pids: pa.ChunkedArray, depth: int | None, by_document: bool) -> pl.DataFrame:
    """A ranking as a run, with the best passage of each document where documents are judged, `depth` deep."""
    query, place = np.nonzero(ranking >= 0)
    found = pl.Series(pids.take(pa.array(ranking[query, place], type=pa.int64())))
    run = pl.DataFrame({"qid": qids.gather(query), "pid": found, "rank": place + 1})
    run = best_passages(run) if by_document else run
    return run if depth is None else run.filter(pl.col("rank") <= depth)


def measure_run(system: str, split: str, names: Sequence[str], section: Evaluate) -> pl.DataFrame:
    """Measure a system's run on disk: columns system, split, qid, measure, value.

    For a system that is judged on a sample of the queries, only the queries of its run are measured.
    """
    found = read_run(project.run_file(system, split))
    table = measure_split(found, split, names, section)
    if registry().is_sampled(system):
        table = table.filter(pl.col("qid").is_in(found["qid"].unique().implode()))
    return table.select(pl.lit(system).alias("system"), pl.lit(split).alias("split"), *table.columns)


def measure_by_answers(
    run: pl.DataFrame, names: Sequence[str], queries: Path, passages: Path, kind: Kind
) -> pl.DataFrame:
    """Measure a run where a passage is relevant if it holds an answer: Success@k is then the papers' R@k.

    Every query of the table counts, whether anything was found for it or not.

    Args:
        run: columns qid, pid, rank.
        names: measures that need no passages but the retrieved ones; see `answer_depth`.

    Raises:
        UserError: a measure needs all relevant passages, a retrieved passage is not in the table, or what `answered`
            raises.
    """
    depth = answer_depth(names)
    qids = pl.Series(read_column(queries, "qid"))
    asked = pl.col("qid").is_in(qids.implode())
    run = run.filter(asked & (pl.col("rank") <= (depth or pl.col("rank"))))
    pairs = with_rows(run, queries, passages)
    if len(pairs) < len(run):
        qid, pid = run.join(pairs, on=["qid", "pid"], how="anti").select("qid", "pid").row(0)
        raise UserError(
            f"{passages}: no passage {pid!r}, which the run has for query {qid!r}; take those it was made of"
        )
    hits = answered(pairs, queries, passages, kind)
    return per_query(run, hits.select("qid", "pid", grade=1), names, queries=qids)
