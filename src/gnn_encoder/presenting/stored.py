"""What the stages measured, read back from metrics/ and data/. The other modules here take these as values."""

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import Form, read_json
from gnn_encoder.controls.choose import CHOICE, Choice, read_choice
from gnn_encoder.evaluation.claim import Claim
from gnn_encoder.evaluation.values import Comparisons, Means
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.project import MAIN, registry, title_of
from gnn_encoder.presenting.quality import Results, results_of

SAME = 1e-9  # means of the same values differ by less


def read_record(path: Path, form: type[Form]) -> Form | None:
    """A JSON file's content, checked as `form`; None if there is no such file."""
    return read_json(path, form) if path.is_file() else None


def read_claim() -> Claim | None:
    """The claim that `evaluate` wrote; None if it has not."""
    return read_record(project.METRICS / MAIN / "claim.json", Claim) if are_ours([MAIN]) else None


def read_choices() -> dict[str, Choice]:
    """System -> what it chose on dev, for the systems without training that have been made."""
    places = {name: project.embeddings(name) for name in registry().of_kind("shifted")}
    places |= {name: project.RUNS / name for name in registry().of_kind("reordered", "fused")}
    return {name: read_choice(place) for name, place in places.items() if (place / CHOICE).is_file()}


def read_results() -> list[Results]:
    """The tables of all systems, test before dev, then those of branches; empty if nothing has been evaluated.

    A branch has tables of its own if one of its systems is in no table of all systems.
    """
    found = _read(project.METRICS, "all systems")
    told = {system for table in found for system in table.means}
    for branch in registry().branches:
        if not told.issuperset(registry().branches[branch].systems):
            found += read_branch(branch)
    return found


def read_branch(branch: str) -> list[Results]:
    """The tables of a branch's systems and its baseline, test before dev; empty if it has not been evaluated."""
    if branch not in registry().branches:
        raise UserError(f"branch is {branch!r}: must be one of {', '.join(registry().branches)}, or all")
    sampled = registry().branches[branch].sampled
    of = "on a sample of the queries" if sampled else "with what it is compared with"
    return _read(project.METRICS / branch, f"{title_of(branch)}, {of}", sampled=sampled)


def are_ours(systems: Iterable[str]) -> bool:
    """Whether the figures of these systems are of the data that is prepared now.

    Where nothing was measured in this clone, those that came with it count. Else they may be of other data.
    """
    return _is_as_it_came() or all(name in registry().systems and is_of_prepared(name) for name in systems)


def is_ours(made: Path) -> bool:
    """As `are_ours`, of the figures that come with an artifact."""
    return _is_as_it_came() or made.exists()


def our_branches() -> list[str]:
    """The branches whose systems' figures `are_ours`."""
    return [name for name, branch in registry().branches.items() if are_ours(branch.systems)]


def _is_as_it_came() -> bool:
    """Whether nothing was measured in this clone."""
    return not any((project.measured(name) / project.VALUES).is_file() for name in registry().systems)


def is_of_prepared(system: str) -> bool:
    """Whether a system has been measured, and on the test queries that are prepared now."""
    values = project.measured(system) / project.VALUES
    if not values.is_file() or not project.queries("test").is_file():
        return False
    judged = pl.scan_parquet(values).filter(pl.col("split") == "test")
    others = judged.join(pl.scan_parquet(project.queries("test")), on="qid", how="anti")
    return others.head(1).collect().is_empty()


def _read(folder: Path, title: str, *, sampled: bool = False) -> list[Results]:
    """The tables of a folder of metrics/, but for those of other data, and those older than their branches' tables."""
    found = {split: read_record(folder / f"{split}.json", Means) for split in reversed(project.JUDGED)}
    shown = {split: of for split, of in found.items() if of and are_ours(of) and (sampled or _is_current(of, split))}
    tested = read_record(folder / "significance.json", dict[str, Comparisons]) or {}
    own = read_record(folder / "baselines.json", dict[str, Comparisons]) or tested
    return results_of(title, shown, tested, own, sampled=sampled)


def _is_current(means: Means, split: str) -> bool:
    """Whether each system has the means that its own branch's table has, which `evaluate` may have written later."""
    for branch in {registry().systems[system].branch for system in means.keys() & registry().systems.keys()}:
        own = read_record(project.METRICS / branch / f"{split}.json", Means) or {}
        for system in means.keys() & own.keys() & {*registry().branches[branch].systems}:
            if any(abs(own[system].get(name, mean) - mean) > SAME for name, mean in means[system].items()):
                return False
    return True
