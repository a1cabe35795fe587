"""Judges and compares runs of any software by qrels or answers, as `gnn-encoder evaluate` does."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from gnn_encoder.base.errors import UserError, check_file
from gnn_encoder.base.runs import read_scored_run
from gnn_encoder.base.tables import PASSAGES, QRELS, QUERIES, open_table, read_table
from gnn_encoder.data.prepare import JUDGED, read_rows
from gnn_encoder.data.reading import read_judged, refuse
from gnn_encoder.evaluate.judge import Judgements
from gnn_encoder.evaluate.measures import answer_depth, mean, parse, per_query
from gnn_encoder.evaluate.significance import Comparison, compare, corrected

Judge = Callable[[pl.DataFrame, Sequence[str]], pl.DataFrame]  # run and names of measures -> VALUES
OPTION = "--measure"
BY_QRELS = ("RR@10", "nDCG@10", "R@50", "R@1000")  # what is measured where the user names nothing
BY_ANSWERS = ("RR@10", "Success@5", "Success@20", "Success@100")


def read_qrels(path: Path) -> pl.DataFrame:
    """Read judgements: lines of `QRELS_FORMS`, plain or gzip, or a table as stage prepare writes it.

    Returns:
        Columns qid, pid, grade; in the file's order.
    """
    if path.suffix == ".parquet":
        check_file(path)
        return read_table(path, QRELS)
    table = read_rows(read_judged(path), JUDGED, f"judgements of {path.name}").drop("count")
    again = table.select((~pl.struct("qid", "pid").is_first_distinct()).arg_true()).to_series()
    if len(again):
        fault = "query {0.qid!r} and passage {0.pid!r} were judged before; keep one line"
        refuse(partial(read_judged, path), int(again[0]), fault)
        raise UserError(f"{path}: {len(again)} pairs were judged before; keep one line of each")  # a pipe is read once
    return table


def by_qrels(path: Path) -> Judge:
    """Judge by a file of qrels."""
    qrels = read_qrels(path)
    return lambda run, names: per_query(run, qrels, names)


def by_answers(queries: Path, passages: Path) -> Judge:
    """Judge by answers: those in a table of queries are looked for in a table of passages; `prepare` writes both."""
    check_file(queries)
    open_table(queries, QUERIES)
    open_table(passages, PASSAGES)
    judgements = Judgements(queries=queries, qrels=queries, passages=passages)
    if not judgements.by_answers:
        raise UserError(f"{queries}: no query has answers; judge the run by qrels")

    def judge(run: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
        answer_depth(names, OPTION)
        return judgements.measure(run, names)

    return judge


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What was measured of one run, or of two on the same queries.

    Attributes:
        queries: how many are judged.
        missing: file of a run -> how many judged queries are not in the run.
        measures: measure -> mean of the first run, in 0..1.
        against: the same of the second run; empty if there is none.
        comparisons: measure -> the first run minus the second one, with Holm's correction over the measures.
    """

    queries: int
    missing: dict[str, int]
    measures: dict[str, float]
    against: dict[str, float]
    comparisons: dict[str, Comparison]

    def as_json(self) -> str:
        """All of it as one JSON object; what is of a second run is left out if there is none."""
        found: dict[str, Any] = {name: value for name, value in asdict(self).items() if value != {}}
        return json.dumps(found, indent=2, ensure_ascii=False)


def judge_runs(paths: Sequence[Path], judge: Judge, names: Sequence[str]) -> Judged:
    """Measure one run, or two on the same queries."""
    names, tables, missing = list(parse(names, OPTION)), list[pl.DataFrame](), {}
    for path in paths:
        run = read_scored_run(path)
        tables.append(judge(run, names))
        asked = tables[-1]["qid"].unique()
        missing[str(path)] = len(asked) - int(asked.is_in(run["qid"].unique().implode()).sum())
        if missing[str(path)] == len(asked):
            raise UserError(f"{path}: none of its queries is judged; take the judgements that belong to the run")
    mine, theirs = tables[0], tables[-1].rename({"value": "theirs"})
    pairs = mine.join(theirs, on=["qid", "measure"], maintain_order="left") if len(tables) > 1 else mine.clear()
    compared = {
        str(name): compare(part["value"].to_numpy(), part["theirs"].to_numpy(), "against")
        for (name,), part in pairs.group_by("measure", maintain_order=True)
    }
    return Judged(
        queries=mine["qid"].n_unique(),
        missing=missing,
        measures=mean(mine),
        against=mean(tables[1]) if len(tables) > 1 else {},
        comparisons=corrected(compared),
    )
