"""Reading the results that `compare` wrote of all systems, and those that `evaluate` wrote of a single branch."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl

from gnn_encoder.core.errors import UserError
from gnn_encoder.evaluation.ceiling import on_shared_queries
from gnn_encoder.evaluation.values import Comparisons, read_values
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.systems import REFERENCE, registry
from gnn_encoder.presenting.artifacts import Missing, read_json, read_records
from gnn_encoder.presenting.means import Mean, Means, means_of
from gnn_encoder.presenting.names import name_of
from gnn_encoder.presenting.results import Results, Row

SAME = 1e-9  # a table is up to date if its means differ by at most this from the means of the queries' values


def read_measured() -> dict[str, Means]:
    """Split -> means with intervals, of the measured systems. Those that are judged on a sample are left out."""
    return means_of(_values(system for system in registry().systems if not registry().is_sampled(system)))


def read_results(measured: dict[str, Means]) -> list[Results] | Missing:
    """The tables of all systems, test before dev, then those of branches.

    A branch has tables of its own if one of its systems is in no table of all systems that is up to date.
    """
    every = list(_read(project.METRICS, "all systems", "dvc repro compare", measured))
    told = {row.system for table in every if not table.outdated for row in table.rows}
    found = every
    for branch in registry().branches:
        if not told.issuperset(registry().of_branch(branch)):
            found += read_branch(branch, measured)
    return found or Missing(what="No system has been evaluated yet", command="dvc repro evaluate@gnn_encoder")


def read_branch(branch: str, measured: dict[str, Means]) -> list[Results]:
    """The tables of a branch's systems and its baseline, test before dev; empty if it has not been evaluated.

    Raises:
        UserError: there is no such branch.
    """
    if branch not in registry().branches:
        raise UserError(f"branch is {branch!r}: must be one of {', '.join(registry().branches)}, or all")
    title, sampled = f"{name_of(branch)} and what it is compared with", registry().branches[branch].sampled
    if sampled:
        title = f"{name_of(branch)}, on a sample of the queries"
        measured = means_of(on_shared_queries(_values(registry().shown_with(branch))))
    command = f"dvc repro evaluate@{branch}"
    return list(_read(project.METRICS / branch, title, command, measured, sampled=sampled))


def is_of_prepared(system: str) -> bool:
    """Whether a system has been measured, and on the test queries that are prepared now."""
    values = project.measured(system) / project.VALUES
    if not values.is_file() or not project.queries("test").is_file():
        return False
    judged = pl.scan_parquet(values).filter(pl.col("split") == "test")
    others = judged.join(pl.scan_parquet(project.queries("test")), on="qid", how="anti")
    return others.head(1).collect().is_empty()


def rows_of(systems: dict[str, dict[str, float]], measured: Means, tested: Comparisons, own: Comparisons) -> list[Row]:
    """One row per system: its means, with their intervals if `measured` has them, and its comparisons.

    Args:
        systems: system -> measure -> mean.
        measured: means with intervals.
        tested: comparisons; only those with M_de are used.
        own: comparisons of systems with the baselines of their branches.
    """
    return [
        Row(
            system=system,
            measures={name: _mean(value, measured.get(system, {}).get(name)) for name, value in values.items()},
            against_reference=found if (found := tested.get(system)) and found.baseline == REFERENCE else None,
            against_own=own.get(system),
        )
        for system, values in systems.items()
    ]


def _values(systems: Iterable[str]) -> pl.DataFrame:
    """The queries' values of those of the systems that have been measured."""
    there = [system for system in systems if (project.measured(system) / project.VALUES).is_file()]
    return read_values(there) if there else pl.DataFrame(schema=["split", "system", "measure", "value", "qid"])


def _read(
    folder: Path, title: str, command: str, measured: dict[str, Means], *, sampled: bool = False
) -> Iterator[Results]:
    tested = read_records(folder / "significance.json", dict[str, Comparisons]) or {}
    own = read_records(folder / "baselines.json", dict[str, Comparisons]) or tested
    for split in reversed(project.JUDGED):
        means, of = read_json(folder / f"{split}.json"), measured.get(split, {})
        if means:
            rows = rows_of(means, of, tested.get(split, {}), own.get(split, {}))
            outdated = any(
                measure in of.get(system, {}) and abs(of[system][measure].mean - value) > SAME
                for system, values in means.items()
                for measure, value in values.items()
            )
            yield Results(title=title, split=split, rows=rows, command=command, outdated=outdated, sampled=sampled)


def _mean(value: float, found: Mean | None) -> Mean:
    """The mean `value` of a table; with the interval of `found`, if that is the same mean."""
    return found if found and abs(found.mean - value) <= SAME else Mean(mean=value)
