"""Judges runs: a passage is relevant by qrels or, where queries have answers, if it holds one of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.judgements import relevant_pairs, with_rows
from gnn_encoder.base.matrix import Rows
from gnn_encoder.base.runs import as_run, read_run
from gnn_encoder.base.tables import QRELS, count_rows, open_parquet, read_column, read_table
from gnn_encoder.data.answers import Kind, answered, judged_by_answers
from gnn_encoder.evaluate.measures import answer_depth, mean, per_query
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Evaluate


@dataclass(frozen=True, kw_only=True)
class Judgements:
    """What judges the runs of a split.

    Attributes:
        queries, qrels, passages: tables; the qrels are not read where the queries have answers.
        answers: how answers are written.
    """

    queries: Path
    qrels: Path
    passages: Path
    answers: Kind = "string"

    @classmethod
    def of(cls, split: str, section: Evaluate) -> Self:
        """Those of a split of the project."""
        queries, qrels, passages = project.tables(split)
        return cls(queries=queries, qrels=qrels, passages=passages, answers=section.answers)

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

        Where answers judge, every query of the table counts, whether anything was found for it or not.

        Args:
            run: columns qid, pid, rank.
        """
        (values,) = self._measure([run], names, self._qids(), "evaluate.measures")
        return values

    def means(self, rankings: Iterable[Rows], rows: Rows, name: str) -> list[float]:
        """The mean of one measure over some queries, for each of several rankings.

        The values are those of `measure`, but whether a passage holds an answer is looked up once for all rankings.

        Args:
            rankings: rows of passages, best first, -1 where there is none. *Shape:* (n, k) each.
            rows: the queries, among `judged_rows`. *Shape:* (n,).
        """
        qids, pids = self._qids().gather(rows), pl.Series(read_column(self.passages, "pid"))
        runs = [as_run(ranking, qids, pids) for ranking in rankings]
        return [mean(values)[name] for values in self._measure(runs, [name], qids, "evaluate.significance")]

    def _qids(self) -> pl.Series:
        return pl.Series(read_column(self.queries, "qid"))

    def _measure(
        self, runs: list[pl.DataFrame], names: Sequence[str], qids: pl.Series, parameter: str
    ) -> list[pl.DataFrame]:
        """Measure several runs on the queries `qids`."""
        asked = pl.col("qid").is_in(qids.implode())
        if not self.by_answers:
            qrels = read_table(self.qrels, QRELS).filter(asked)
            return [per_query(run, qrels, names) for run in runs]
        depth = answer_depth(names, parameter)
        runs = [run.filter(asked & (pl.col("rank") <= (depth or pl.col("rank")))) for run in runs]
        found = pl.concat(run.select("qid", "pid") for run in runs).unique(maintain_order=True)
        hits = self._answered(found)
        return [per_query(run, hits, names, queries=qids) for run in runs]

    def _answered(self, found: pl.DataFrame) -> pl.DataFrame:
        """Those of some pairs whose passage holds an answer, as judgements. Columns qid, pid -> qid, pid, grade."""
        pairs = with_rows(found, self.queries, self.passages)
        if len(pairs) < len(found):
            qid, pid = found.join(pairs, on=["qid", "pid"], how="anti").row(0)
            rule = f"no passage {pid!r}, which the run has for query {qid!r}; take those it was made of"
            raise UserError(f"{self.passages}: {rule}")
        hits = answered(pairs, self.queries, self.passages, self.answers)
        return hits.select("qid", "pid", grade=1)


def measure_system(system: str, names: Sequence[str], section: Evaluate) -> pl.DataFrame:
    """The values of a system's runs: columns system, split, qid, measure, value."""
    parts = []
    for split in project.JUDGED:
        table = Judgements.of(split, section).measure(read_run(project.run_file(system, split)), names)
        parts.append(table.select(pl.lit(system).alias("system"), pl.lit(split).alias("split"), *table.columns))
    return pl.concat(parts)


def read_values(systems: Iterable[str]) -> pl.DataFrame:
    """What was measured: columns system, split, qid, measure, value; in the order of `systems`."""
    files = (project.measured(system) / project.VALUES for system in systems)
    return pl.concat([pl.DataFrame(open_parquet(file).read()) for file in files])
