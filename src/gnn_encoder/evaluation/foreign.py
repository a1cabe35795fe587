"""Judges and compares runs of any tool, as `gnn-encoder evaluate` does."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import TypeAdapter

from gnn_encoder.answers.matching import Kind
from gnn_encoder.core.errors import UserError
from gnn_encoder.core.records import PASSAGES, QUERIES, open_table
from gnn_encoder.core.runs import read_scored_run
from gnn_encoder.core.storage.atomic import write_text
from gnn_encoder.evaluation.judge import measure_by_answers
from gnn_encoder.evaluation.measures import answer_depth, mean, parse, per_query
from gnn_encoder.evaluation.qrels import read_qrels
from gnn_encoder.evaluation.significance import Comparison, compare, corrected
from gnn_encoder.evaluation.slices import Slices, slice_systems

Judge = Callable[[pl.DataFrame, Sequence[str]], pl.DataFrame]  # run and names of measures -> VALUES
OPTION = "--measure"
BY_QRELS = ("RR@10", "nDCG@10", "R@50", "R@1000")
BY_ANSWERS = ("RR@10", "Success@5", "Success@20", "Success@100")


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


def by_answers(queries: Path, passages: Path, kind: Kind) -> Judge:
    """Judge by answers: those in a table of queries are looked for in a table of passages; `prepare` writes both.

    Raises:
        UserError: one of the tables is missing or has other columns.
    """
    open_table(queries, QUERIES)
    open_table(passages, PASSAGES)

    def judge(run: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
        answer_depth(names, OPTION)
        return measure_by_answers(run, names, queries, passages, kind)

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


def slice_runs(judged: Judged, labels: pl.DataFrame, place: str) -> dict[str, Slices]:
    """Measure -> the slices of the systems `run` and, if there is a second run, `against`, which is the baseline.

    Args:
        labels: as `read_labels` gives them.
        place: the file that they are from.

    Raises:
        UserError: no judged query is labelled.
    """
    values = judged.values.rename({"value": "run"})
    if not values["qid"].is_in(labels["qid"].implode()).any():
        raise UserError(f"{place}: no judged query is in it; take the labels that belong to the judgements")
    systems = [name for name in ("run", "against") if name in values.columns]
    baseline = "against" if "against" in systems else None
    long = values.unpivot(systems, index=["qid", "measure"], variable_name="system")
    return {
        str(name): slice_systems(rows, labels, baseline)
        for (name,), rows in long.group_by("measure", maintain_order=True)
    }


def as_json(judged: Judged, slices: dict[str, Slices]) -> str:
    """Means, comparisons and, if there are some, slices as one JSON object."""
    means = judged.means()
    found: dict[str, Any] = {"queries": judged.values["qid"].n_unique(), "missing": judged.missing}
    found |= {"measures": means["value"]}
    if "against" in means:
        comparisons = {name: asdict(comparison) for name, comparison in judged.comparisons().items()}
        found |= {"against": means["against"], "comparisons": comparisons}
    if slices:
        found |= {"slices": TypeAdapter(dict[str, Slices]).dump_python(slices)}
    return json.dumps(found, indent=2, ensure_ascii=False)


def check_target(path: Path) -> None:
    """Make sure, before anything is measured, that `write_values` can write there.

    Raises:
        UserError: the name ends in neither .csv nor .json, or its folder is not there.
    """
    if path.suffix not in (".csv", ".json"):
        raise UserError(f"{path}: must end in .csv or .json, which says what is written")
    if not path.absolute().parent.is_dir():
        raise UserError(f"{path}: its folder is not there; make it first")


def write_values(judged: Judged, path: Path) -> None:
    """Each query's values as CSV or as JSON (a list of objects), by the name's ending."""
    write_text(path, judged.values.write_csv() if path.suffix == ".csv" else judged.values.write_json())
