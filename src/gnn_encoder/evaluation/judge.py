"""Judges runs: a passage is relevant by qrels or, where queries have answers, if it holds one of them.

Where texts are cut into passages, `D#3` is a part of document D, and documents can be judged instead.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl
import pyarrow as pa

from gnn_encoder.answers.matching import Kind
from gnn_encoder.answers.pairs import answered, judged_by_answers
from gnn_encoder.core.errors import UserError
from gnn_encoder.core.judgements import relevant_pairs, with_rows
from gnn_encoder.core.records import QRELS, open_table
from gnn_encoder.core.rows import Rows
from gnn_encoder.core.storage.tables import count_rows, read_column
from gnn_encoder.evaluation.measures import answer_depth, cutoff, mean, per_query
from gnn_encoder.evaluation.params import Evaluate

DOCUMENT = pl.col("pid").str.replace(r"#[0-9]+$", "")


@dataclass(frozen=True, kw_only=True)
class Judgements:
    """What judges the runs of a split.

    Attributes:
        queries, qrels, passages: tables; the qrels are not read where the queries have answers.
        answers: how answers are written.
        by_document: whether documents are ranked and judged, each by its best passage. A document is relevant if it is
            judged so or, where answers judge, if its best passage holds one.
    """

    queries: Path
    qrels: Path
    passages: Path
    answers: Kind = "string"
    by_document: bool = False

    @classmethod
    def of(cls, section: Evaluate, queries: Path, qrels: Path, passages: Path) -> Self:
        """Judgements as section `evaluate` says."""
        by_document = section.by == "document"
        return cls(queries=queries, qrels=qrels, passages=passages, answers=section.answers, by_document=by_document)

    @cached_property
    def by_answers(self) -> bool:
        """Whether answers judge the split."""
        return judged_by_answers(self.queries)

    def judged_rows(self) -> Rows:
        """Rows of the queries that count: those with a relevant passage; all, where answers judge. *Shape:* (n,)."""
        if self.by_answers:
            return np.arange(count_rows(self.queries))
        rows: Rows = relevant_pairs(self.queries, self.qrels, self.passages)["query"].unique().sort().to_numpy()
        return rows

    def measure(self, run: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
        """Measure a run; the values have the form of `per_query`.

        Args:
            run: columns qid, pid, rank.

        Raises:
            UserError: what `per_query` and `measure_by_answers` raise.
        """
        if self.by_document:
            run = best_passages(run)
        if self.by_answers:
            return measure_by_answers(run, names, self.queries, self.passages, self.answers)
        return per_query(as_documents(run) if self.by_document else run, self._qrels(), names)

    def means(self, rankings: Iterable[Rows], rows: Rows, name: str) -> list[float]:
        """The mean of one measure over some queries, for each of several rankings.

        The values are those of `measure`, but whether a passage holds an answer is looked up once for all rankings.

        Args:
            rankings: rows of passages, best first, -1 where there is none. *Shape:* (n, k) each.
            rows: the queries, among `judged_rows`. *Shape:* (n,).

        Raises:
            UserError: what `measure` raises.
        """
        qids = pl.Series(read_column(self.queries, "qid")).gather(rows)
        pids = read_column(self.passages, "pid")
        runs = [_run(ranking, qids, pids, cutoff(name), self.by_document) for ranking in rankings]
        if self.by_answers:
            answer_depth([name], "evaluate.significance")
            held = pl.concat(runs).select("qid", "pid").unique(maintain_order=True)
            pairs = with_rows(held, self.queries, self.passages)
            hits = answered(pairs, self.queries, self.passages, self.answers)
            qrels, asked = hits.select("qid", "pid", grade=1), qids
        else:
            qrels, asked = self._qrels().filter(pl.col("qid").is_in(qids.implode())), None
            runs = [as_documents(run) for run in runs] if self.by_document else runs
        return [mean(per_query(run, qrels, [name], queries=asked))[name] for run in runs]

    def _qrels(self) -> pl.DataFrame:
        qrels = pl.DataFrame(open_table(self.qrels, QRELS).read())
        return judged_documents(qrels) if self.by_document else qrels


def _run(ranking: Rows, qids: pl.Series, pids: pa.ChunkedArray, depth: int | None, by_document: bool) -> pl.DataFrame:
    """A ranking as a run, with the best passage of each document where documents are judged, `depth` deep."""
    query, place = np.nonzero(ranking >= 0)
    found = pl.Series(pids.take(pa.array(ranking[query, place], type=pa.int64())))
    run = pl.DataFrame({"qid": qids.gather(query), "pid": found, "rank": place + 1})
    run = best_passages(run) if by_document else run
    return run if depth is None else run.filter(pl.col("rank") <= depth)


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


def best_passages(run: pl.DataFrame) -> pl.DataFrame:
    """Keep the best passage of each document. Its rank becomes the document's, so that no document fills two ranks.

    Args:
        run: columns qid, pid, rank, among others.
    """
    best = run.sort("rank", maintain_order=True).unique(
        [pl.col("qid"), DOCUMENT.alias("document")], keep="first", maintain_order=True
    )
    return best.with_columns(rank=pl.int_range(1, pl.len() + 1).over("qid").cast(run.schema["rank"]))


def as_documents(table: pl.DataFrame) -> pl.DataFrame:
    """A run or judgements with the documents' ids in place of the passages'."""
    return table.with_columns(pid=DOCUMENT)


def judged_documents(qrels: pl.DataFrame) -> pl.DataFrame:
    """Judgements of documents: a document has the best grade of its passages.

    Args:
        qrels: columns qid, pid, grade, of passages.
    """
    return as_documents(qrels).group_by("qid", "pid", maintain_order=True).agg(pl.col("grade").max())
