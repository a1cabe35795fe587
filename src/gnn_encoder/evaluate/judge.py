"""Judges runs: a passage is relevant by qrels or, where queries have answers, if it holds one of them.

The runs are the project's or, for `gnn-encoder evaluate`, those of any software.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from gnn_encoder.base.errors import UserError, check_file
from gnn_encoder.base.judgements import relevant_pairs, with_rows
from gnn_encoder.base.matrix import Rows
from gnn_encoder.base.runs import as_run, read_run, read_scored_run
from gnn_encoder.base.tables import QRELS, count_rows, read_column, read_table
from gnn_encoder.data.answers import answered, judged_by_answers
from gnn_encoder.data.prepare import JUDGED, read_rows
from gnn_encoder.data.reading import place_of, read_judged
from gnn_encoder.evaluate.measures import Comparison, answer_depth, compare, corrected, mean, parse, parts_by, per_query
from gnn_encoder.evaluate.tables import DATA, Table, data_key, p_value
from gnn_encoder.pipeline import project

USUAL = ("RR@10", "nDCG@10", "R@50", "R@1000")  # what is measured of a user's run where no measure is named


class Judgements:
    """What judges the runs of a split of the project: qrels or, where its queries have answers, these."""

    def __init__(self, split: str) -> None:
        self.queries, self.qrels, self.passages = project.tables(split)
        self.by_answers = judged_by_answers(self.queries)

    def judged_rows(self) -> Rows:
        """Rows of the queries that count: those with a relevant passage; all, where answers judge. *Shape:* (n,)."""
        if self.by_answers:
            return np.arange(count_rows(self.queries))
        rows: Rows = relevant_pairs(self.queries, self.qrels, self.passages)["query"].unique().sort().to_numpy()
        return rows

    def means(self, rankings: Iterable[Rows], rows: Rows, name: str) -> list[float]:
        """The mean of `evaluate.significance` over some of `judged_rows` for each of several rankings.

        *Shape:* rankings (n, k) each, of rows, -1 where there is none; rows (n,).
        """
        qids = read_column(self.queries, "qid").gather(rows)
        pids = read_column(self.passages, "pid")
        runs = [as_run(ranking, qids, pids) for ranking in rankings]
        return [mean(values)[name] for values in self.measure(runs, [name], qids, "evaluate.significance")]

    def measure(
        self,
        runs: Sequence[pl.DataFrame],
        names: Sequence[str],
        qids: pl.Series | None = None,
        parameter: str = "evaluate.measures",
    ) -> list[pl.DataFrame]:
        """The values of each run by `per_query`, of some queries or all; where answers judge, all of these count."""
        qids = read_column(self.queries, "qid") if qids is None else qids
        asked = pl.col("qid").is_in(qids.implode())
        if not self.by_answers:
            qrels = read_table(self.qrels, QRELS).filter(asked)
            return [per_query(run, qrels, names) for run in runs]
        depth = answer_depth(names, parameter)
        runs = [run.filter(asked & (pl.col("rank") <= (depth or pl.col("rank")))) for run in runs]
        found = pl.concat(run.select("qid", "pid") for run in runs).unique(maintain_order=True)
        pairs = with_rows(found, self.queries, self.passages)
        for qid, pid in found.join(pairs, on=["qid", "pid"], how="anti").head(1).iter_rows():
            rule = f"no passage {pid!r}, which the run has for query {qid!r}; take those it was made of"
            raise UserError(f"{self.passages}: {rule}")
        hits = answered(pairs, self.queries, self.passages).select("qid", "pid", grade=1)
        return [per_query(run, hits, names, queries=qids) for run in runs]


def measure_systems(systems: Iterable[str], names: Sequence[str], folder: Path) -> pl.DataFrame:
    """Measure the runs of systems; written below `folder`, and returned: columns system, split, qid, measure, value."""
    parts, of = [], {DATA: data_key()}
    for system in systems:
        measured = pl.concat(
            table.select(pl.lit(system).alias("system"), pl.lit(split).alias("split"), *table.columns)
            for split in project.JUDGED
            for table in Judgements(split).measure([read_run(project.run_file(system, split))], names)
        )
        (folder / system).mkdir(parents=True, exist_ok=True)
        measured.write_parquet(folder / system / project.VALUES, metadata=of)
        parts.append(measured)
    return pl.concat(parts)


def read_qrels(path: Path) -> pl.DataFrame:
    """Read judgements: lines of `QRELS_FORMS`, plain or gzip, or a table of prepare. Columns qid, pid, grade.

    A line that repeats an earlier one counts once, as in `prepare`.
    """
    if path.suffix == ".parquet":
        check_file(path)
        return read_table(path, QRELS)
    table = read_rows(read_judged(path), JUDGED, f"judgements of {path.name}").drop("count").with_row_index()
    once = table.unique(["qid", "pid", "grade"], keep="first", maintain_order=True)
    for again in once.filter(~pl.struct("qid", "pid").is_first_distinct()).head(1).iter_rows(named=True):
        place = place_of(partial(read_judged, path), again["index"])
        told = f"query {again['qid']!r} and passage {again['pid']!r} were judged before, differently"
        raise UserError(f"{place}: {told}; keep one line")
    return once.drop("index")


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What was measured of one run, or of two on the same queries, and how many queries are judged."""

    queries: int
    missing: dict[str, int]  # file of a run -> how many judged queries are not in the run
    depths: dict[str, int]  # file of a run -> most passages of a query in it
    known: dict[str, int]  # file of a run -> how many of its passages are judged for their query
    measures: dict[str, float]  # measure -> mean of the first run, in 0..1
    against: dict[str, float]  # the same of the second run; empty if there is none
    comparisons: dict[str, Comparison]  # measure -> first run minus second; Holm's correction is over the measures

    def as_json(self) -> str:
        """All of it as one JSON object; what is of a second run is left out if there is none."""
        found = {name: value for name, value in asdict(self).items() if value != {}}
        return json.dumps(found, indent=2, ensure_ascii=False)

    def as_table(self) -> Table:
        """One row per measure, in 0..1, and the comparison with a second run."""
        columns = [f"{self.queries:,} judged queries", "run", "against", "difference", "95% interval", "p", "p (Holm)"]
        rows = [[name, f"{value:.4f}"] for name, value in self.measures.items()]
        for row, (name, found) in zip(rows, self.comparisons.items(), strict=False):
            row += [f"{self.against[name]:.4f}", f"{found.difference:+.4f}", f"{found.low:+.4f} to {found.high:+.4f}"]
            row += [p_value(p).removeprefix("p = ") for p in (found.p, found.p_holm)]
        return Table(columns=columns[: len(rows[0])], rows=rows)


def judge_runs(paths: Sequence[Path], qrels: Path, names: Sequence[str]) -> Judged:
    """Measure one run of any software, or two on the same queries."""
    names, judgements = list(parse(names, "--measure")), read_qrels(qrels)
    tables, missing, depths, known = list[pl.DataFrame](), {}, {}, {}
    for path in paths:
        run = read_scored_run(path)
        tables.append(per_query(run, judgements, names))
        depths[str(path)] = int(run["rank"].to_numpy().max(initial=0))
        known[str(path)] = len(run.join(judgements, on=["qid", "pid"], how="semi"))
        asked = set(tables[-1]["qid"])
        missing[str(path)] = len(asked.difference(run["qid"]))
        if missing[str(path)] == len(asked):
            raise UserError(f"{path}: none of its queries is judged; take judgements with the run's own query ids")
    mine, *others = tables
    compared = {}
    for theirs in others:
        pairs = mine.join(theirs, on=["qid", "measure"], suffix="_there", maintain_order="left")
        for name, of in parts_by("measure", pairs).items():
            compared[name] = compare(of["value"].to_numpy(), of["value_there"].to_numpy(), "against")
    return Judged(
        queries=mine["qid"].n_unique(),
        missing=missing,
        depths=depths,
        known=known,
        measures=mean(mine),
        against=mean(others[0]) if others else {},
        comparisons=corrected(compared),
    )
