"""What the stages measured, read back from metrics/ and data/. The other modules here take these as values."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
from pydantic import TypeAdapter

from gnn_encoder.baselines.choice import CHOICE, Choice, read_choice
from gnn_encoder.core.errors import UserError
from gnn_encoder.evaluation.claim import Claim
from gnn_encoder.evaluation.values import Comparisons, Means, on_shared_queries
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.judging import read_values
from gnn_encoder.pipeline.systems import MAIN, registry, title_of
from gnn_encoder.presenting.quality import Mean, Measured, Results, means_of

SAME = 1e-9  # the means of a table and of the queries' values differ by at most this, or the values are newer
Record = TypeVar("Record")


def read_json(path: Path) -> Any:
    """A JSON file's content; None if there is no such file.

    Raises:
        UserError: the file is not JSON.
    """
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON ({error}); run the stage that writes it again") from error


def read_record(path: Path, form: type[Record]) -> Record | None:
    """A JSON file's content, validated as `form`; None if there is no such file."""
    value = read_json(path)
    return None if value is None else TypeAdapter(form).validate_python(value)


def read_claim() -> Claim | None:
    """The claim that `evaluate` wrote; None if it has not."""
    return read_record(project.METRICS / MAIN / "claim.json", Claim)


def read_choices() -> dict[str, Choice]:
    """System -> what it chose on dev, for the systems without training that have been made."""
    places = {name: project.embeddings(name) for name in registry().of_kind("shifted")}
    places |= {name: project.RUNS / name for name in registry().of_kind("reordered", "fused")}
    return {name: read_choice(place) for name, place in places.items() if (place / CHOICE).is_file()}


def read_measured() -> dict[str, Measured]:
    """Split -> means with intervals, of the measured systems. Those that are judged on a sample are left out."""
    return means_of(_values(system for system in registry().systems if not registry().is_sampled(system)))


def read_results(measured: dict[str, Measured]) -> list[Results]:
    """The tables of all systems, test before dev, then those of branches; empty if nothing has been evaluated.

    A branch has tables of its own if one of its systems is in no table of all systems. A table that is older than the
    values of its systems' queries is left out.
    """
    found = list(_read(project.METRICS, "all systems", measured))
    told = {system for table in found for system in table.means}
    for branch in registry().branches:
        if not told.issuperset(registry().branches[branch].systems):
            found += read_branch(branch, measured)
    return found


def read_branch(branch: str, measured: dict[str, Measured]) -> list[Results]:
    """The tables of a branch's systems and its baseline, test before dev; empty if it has not been evaluated.

    Raises:
        UserError: there is no such branch.
    """
    if branch not in registry().branches:
        raise UserError(f"branch is {branch!r}: must be one of {', '.join(registry().branches)}, or all")
    title, sampled = f"{title_of(branch)} and what it is compared with", registry().branches[branch].sampled
    if sampled:
        title = f"{title_of(branch)}, on a sample of the queries"
        measured = means_of(on_shared_queries(_values(registry().shown_with(branch))))
    return list(_read(project.METRICS / branch, title, measured, sampled=sampled))


def is_of_prepared(system: str) -> bool:
    """Whether a system has been measured, and on the test queries that are prepared now."""
    values = project.measured(system) / project.VALUES
    if not values.is_file() or not project.queries("test").is_file():
        return False
    judged = pl.scan_parquet(values).filter(pl.col("split") == "test")
    others = judged.join(pl.scan_parquet(project.queries("test")), on="qid", how="anti")
    return others.head(1).collect().is_empty()


def _values(systems: Iterable[str]) -> pl.DataFrame:
    """The queries' values of those of the systems that have been measured."""
    there = [system for system in systems if (project.measured(system) / project.VALUES).is_file()]
    return read_values(there) if there else pl.DataFrame(schema=["split", "system", "measure", "value", "qid"])


def _read(folder: Path, title: str, measured: dict[str, Measured], *, sampled: bool = False) -> Iterator[Results]:
    tested = read_record(folder / "significance.json", dict[str, Comparisons]) or {}
    own = read_record(folder / "baselines.json", dict[str, Comparisons]) or tested
    for split in reversed(project.JUDGED):
        means: Means = read_json(folder / f"{split}.json") or {}
        now = measured.get(split, {})
        if means and all(_same(of, now.get(name, {})) for name, of in means.items()):
            yield Results(
                title=title,
                split=split,
                means={system: _with_intervals(of, now.get(system, {})) for system, of in means.items()},
                against_reference=tested.get(split, {}),
                against_own=own.get(split, {}),
                sampled=sampled,
            )


def _with_intervals(means: dict[str, float], now: dict[str, Mean]) -> dict[str, Mean]:
    """A system's means, with the intervals of its queries' values where these are there."""
    return {name: now.get(name, Mean(mean=mean)) for name, mean in means.items()}


def _same(means: dict[str, float], now: dict[str, Mean]) -> bool:
    return all(abs(now[name].mean - mean) <= SAME for name, mean in means.items() if name in now)
