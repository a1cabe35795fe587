"""The tables of systems: what `compare` wrote of all, what `evaluate` wrote of a branch that was run alone."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from gnn_encoder.core import project
from gnn_encoder.evaluation.ceiling import on_shared_questions
from gnn_encoder.evaluation.significance import Comparison, interval
from gnn_encoder.evaluation.values import read_values
from gnn_encoder.report.artifacts import Missing, read_json
from gnn_encoder.report.names import name_of

REFERENCE = "dual_encoder"  # M_de
SIGNIFICANT = 0.05
SAME = 1e-9  # the mean of the questions' values, and what a table says


@dataclass(frozen=True, kw_only=True)
class Mean:
    """Mean of a measure over questions, in 0..1, and half of its 95% interval."""

    mean: float
    half: float | None = None
    questions: int | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """A system in a table: its measures, and it against M_de and against its branch's baseline."""

    system: str
    measures: dict[str, Mean]
    against_reference: Comparison | None
    against_own: Comparison | None


@dataclass(frozen=True, kw_only=True)
class Table:
    """Systems that were compared together on the questions of a split.

    `outdated`: the questions' values have changed since.
    """

    title: str
    split: str
    rows: list[Row]
    command: str
    outdated: bool

    @property
    def measures(self) -> list[str]:
        """Names of the measures, in the order they were asked for."""
        return list(self.rows[0].measures)

    @property
    def questions(self) -> int | None:
        """Judged questions; None where no question's values are there."""
        return next((mean.questions for row in self.rows for mean in row.measures.values() if mean.questions), None)


Means = dict[str, dict[str, Mean]]  # system -> measure -> mean


def read_measured() -> dict[str, Means]:
    """Split -> means with intervals of every system whose questions' values are there, and are of all questions."""
    return _means(_values(system for system in project.BRANCH_OF if not project.is_sampled(system)))


def result_tables(measured: dict[str, Means]) -> list[Table] | Missing:
    """All systems first, test before dev; then each branch that they leave out, or that is newer than they are."""
    every = list(_read(project.METRICS, "all systems", "dvc repro compare", measured))
    told = {row.system for table in every if not table.outdated for row in table.rows}
    tables = every
    for name, branch in project.BRANCHES.items():
        if not told.issuperset(branch.systems):
            title, command, of = f"{name_of(name)} and its baseline", f"dvc repro evaluate@{name}", measured
            if branch.sampled:
                title = f"{name_of(name)}, on a sample of the questions"
                of = _means(on_shared_questions(_values([branch.baseline, *branch.beside, *branch.systems])))
            tables += _read(project.METRICS / name, title, command, of)
    return tables or Missing(what="No system has been evaluated yet", command="dvc repro evaluate@gnn_encoder")


def _values(systems: Iterable[str]) -> pl.DataFrame:
    """As `read_values`, of those systems that are measured."""
    there = [system for system in systems if (project.measured(system) / project.VALUES).is_file()]
    return read_values(there) if there else pl.DataFrame(schema=["split", "system", "measure", "value", "qid"])


def _means(values: pl.DataFrame) -> dict[str, Means]:
    """Split -> system -> means with intervals."""
    found: dict[str, Means] = {}
    for (split, system, measure), part in values.group_by("split", "system", "measure", maintain_order=True):
        numbers = part["value"].to_numpy()
        low, high = interval(numbers)
        mean = Mean(mean=float(numbers.mean()), half=(high - low) / 2, questions=len(numbers))
        found.setdefault(str(split), {}).setdefault(str(system), {})[str(measure)] = mean
    return found


def _read(folder: Path, title: str, command: str, measured: dict[str, Means]) -> Iterator[Table]:
    tested = read_json(folder / "significance.json") or {}
    own = read_json(folder / "baselines.json") or tested
    for split in reversed(project.JUDGED):
        means = read_json(folder / f"{split}.json")
        if means:
            of = measured.get(split, {})
            against = _comparisons(tested.get(split, {})), _comparisons(own.get(split, {}))
            rows = [_row(system, values, of.get(system, {}), *against) for system, values in means.items()]
            outdated = any(
                measure in of.get(system, {}) and abs(of[system][measure].mean - value) > SAME
                for system, values in means.items()
                for measure, value in values.items()
            )
            yield Table(title=title, split=split, rows=rows, command=command, outdated=outdated)


def _row(
    system: str,
    values: dict[str, float],
    measured: dict[str, Mean],
    tested: dict[str, Comparison],
    own: dict[str, Comparison],
) -> Row:
    reference = tested.get(system)
    return Row(
        system=system,
        measures={name: _mean(value, measured.get(name)) for name, value in values.items()},
        against_reference=reference if reference and reference.baseline == REFERENCE else None,
        against_own=own.get(system),
    )


def _mean(value: float, found: Mean | None) -> Mean:
    """What the table says, with the interval of the values that it is the mean of."""
    return found if found and abs(found.mean - value) <= SAME else Mean(mean=value)


def _comparisons(found: dict[str, dict[str, Any]]) -> dict[str, Comparison]:
    return {system: Comparison(**fields) for system, fields in found.items()}
