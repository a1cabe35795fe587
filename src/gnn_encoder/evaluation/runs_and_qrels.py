"""Judges and compares runs of any software by qrels or answers, as `gnn-encoder evaluate` does.

Qrels stand as TREC writes them (`qid 0 pid grade`), as BEIR does (`qid pid grade`), as pairs
of relevant ones (`qid pid`), or in a table of stage prepare.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.records import PASSAGES, QRELS, QUERIES, open_table
from gnn_encoder.core.runs import numbered_lines, read_scored_run
from gnn_encoder.evaluation.judge import measure_by_answers
from gnn_encoder.evaluation.measures import answer_depth, mean, parse, per_query
from gnn_encoder.evaluation.significance import Comparison, compare, corrected

Judge = Callable[[pl.DataFrame, Sequence[str]], pl.DataFrame]  # run and names of measures -> VALUES
OPTION = "--measure"
BY_QRELS = ("RR@10", "nDCG@10", "R@50", "R@1000")
BY_ANSWERS = ("RR@10", "Success@5", "Success@20", "Success@100")

FORMS = "a line is `qid 0 pid grade` (TREC), `qid pid grade` (BEIR) or `qid pid`, with white space between them"
HEADER = ["query-id", "corpus-id", "score"]  # BEIR's
GRADE = re.compile(r"[+-]?[0-9]{1,9}")  # nine digits at most: an int32 holds them
SCHEMA = pl.Schema({"line": pl.Int64(), "qid": pl.String(), "pid": pl.String(), "grade": pl.Int32()})


def read_qrels(path: Path) -> pl.DataFrame:
    """Read judgements: text, plain or gzip, or a table as stage prepare writes it.

    Returns:
        Columns qid, pid, grade; lines in the file's order.

    Raises:
        UserError: the file is missing or truncated, a line is malformed, or a pair is judged twice.
    """
    if path.suffix == ".parquet":
        return pl.DataFrame(open_table(path, QRELS).read())
    rows: list[tuple[int, str, str, int]] = []
    width = None
    for number, line in numbered_lines(path):
        fields = line.removeprefix("\ufeff").split()
        width = width or (len(fields) if len(fields) in (2, 3, 4) else None)
        if not rows and fields == HEADER:
            continue
        if len(fields) != width:
            raise UserError(f"{path}, line {number}: {len(fields)} fields; {FORMS}, the same in the whole file")
        qid, pid, grade = (*fields, "1") if width == 2 else (fields[0], fields[-2], fields[-1])
        if not GRADE.fullmatch(grade):
            raise UserError(f"{path}, line {number}: grade is {grade!r}; must be a whole number, 0 for not relevant")
        rows.append((number, qid, pid, int(grade)))
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    repeated = table.filter(~pl.struct("qid", "pid").is_first_distinct())
    if len(repeated):
        number, qid, pid, _ = repeated.row(0)
        raise UserError(f"{path}, line {number}: query {qid!r} and passage {pid!r} were judged before; keep one line")
    return table.drop("line")


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Values of one run, or of two.

    Attributes:
        values: columns qid, measure, value and, if there is a second run, `against` with its values.
        missing: file of a run -> how many judged queries are not in the run.
    """

    values: pl.DataFrame
    missing: dict[str, int]

    def means(self) -> dict[str, dict[str, float]]:
        """Column of `values` (`value` and, if there is a second run, `against`) -> measure -> mean in 0..1."""
        columns = [name for name in ("value", "against") if name in self.values.columns]
        return {name: mean(self.values.select("qid", "measure", value=name)) for name in columns}

    def comparisons(self) -> dict[str, Comparison]:
        """Measure -> the run minus the second one, with Holm's correction over the measures; empty for one run."""
        if "against" not in self.values.columns:
            return {}
        parts = self.values.group_by("measure", maintain_order=True)
        return corrected(
            {
                str(name): compare(part["value"].to_numpy(), part["against"].to_numpy(), "against")
                for (name,), part in parts
            }
        )


def by_qrels(path: Path) -> Judge:
    """Judge by a file of qrels."""
    qrels = read_qrels(path)
    return lambda run, names: per_query(run, qrels, names)


def by_answers(queries: Path, passages: Path) -> Judge:
    """Judge by answers: those in a table of queries are looked for in a table of passages; `prepare` writes both.

    Raises:
        UserError: one of the tables is missing or has other columns.
    """
    open_table(queries, QUERIES)
    open_table(passages, PASSAGES)

    def judge(run: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
        answer_depth(names, OPTION)
        return measure_by_answers(run, names, queries, passages, "string")

    return judge


def judge_runs(paths: Sequence[Path], judge: Judge, names: Sequence[str]) -> Judged:
    """Measure one run, or two on the same queries.

    Raises:
        UserError: a file is malformed, a measure is unknown, or a run has none of the judged queries.
    """
    names, tables, missing = list(parse(names, OPTION)), [], {}
    for path in paths:
        run = read_scored_run(path)
        table = judge(run, names)
        asked = table["qid"].unique()
        missing[str(path)] = len(asked) - int(asked.is_in(run["qid"].unique().implode()).sum())
        if missing[str(path)] == len(asked):
            raise UserError(f"{path}: none of its queries is judged; take the judgements that belong to the run")
        tables.append(table)
    values = tables[0]
    if len(tables) > 1:
        values = values.join(tables[1].rename({"value": "against"}), on=["qid", "measure"], maintain_order="left")
    return Judged(values=values, missing=missing)


def as_json(judged: Judged) -> str:
    """Means and comparisons as one JSON object."""
    means = judged.means()
    found: dict[str, Any] = {"queries": judged.values["qid"].n_unique(), "missing": judged.missing}
    found |= {"measures": means["value"]}
    if "against" in means:
        found |= {"against": means["against"], "comparisons": judged.comparisons()}
    return json.dumps(found, indent=2, ensure_ascii=False, default=asdict)
