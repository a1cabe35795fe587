"""The stages as DVC reads them from dvc.yaml and dvc.lock: who needs whom, what each took and how much it wrote."""

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from gnn_encoder.core.stage import TIMES, artifact_name
from gnn_encoder.presenting.artifacts import read_json
from gnn_encoder.presenting.formats import NOTHING, seconds, size
from gnn_encoder.presenting.tables import Table

REPORT = "report"  # the stage that draws this


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage as it runs: for one system, where it runs for several.

    `seconds` is None where it was not made here in one go, `size` (bytes) where it was not made at all.
    """

    address: str
    outs: tuple[str, ...]
    seconds: float | None
    size: int | None

    @property
    def name(self) -> str:
        """What it is called in dvc.yaml."""
        return self.address.partition("@")[0]

    @property
    def system(self) -> str:
        """What it runs for; empty where it runs once."""
        return self.address.partition("@")[2]


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Stages in the order of dvc.yaml, and arrows from one to another that needs it, as addresses."""

    stages: list[Stage]
    arrows: set[tuple[str, str]]


def read_pipeline() -> Pipeline:
    """The stages of all dvc.yaml of the project, but for the report's own."""
    from dvc.repo import Repo

    with Repo(".", uninitialized=True) as repo:  # a project without .dvc has its stages all the same
        stages = [stage for stage in repo.index.stages if stage.addressing != REPORT]
        # DVC's arrows go from a stage to what it needs.
        arrows = {(needed.addressing, stage.addressing) for stage, needed in repo.index.graph.edges}
        return Pipeline(stages=[_stage(stage) for stage in stages], arrows=arrows)


def stages_table(pipeline: Pipeline) -> Table:
    """A row a stage of dvc.yaml, its runs taken together, and a row for all of them."""
    groups = {name: list(of) for name, of in groupby(pipeline.stages, key=lambda stage: stage.name)}
    rows = [[name, str(len(of)), *_together(of)] for name, of in (groups | {"all": pipeline.stages}).items()]
    note = f"What each stage took here and wrote; {NOTHING} where it was interrupted or not run here"
    return Table(title="Times and sizes", columns=["Stage", "runs", "time", "size"], rows=rows, note=note)


def runs_table(pipeline: Pipeline) -> Table:
    """A row a run of a stage."""
    rows = [[one.address, seconds(one.seconds), size(one.size), ", ".join(one.outs)] for one in pipeline.stages]
    return Table(title="Each run of a stage", columns=["Stage", "time", "size", "writes"], rows=rows)


def _together(stages: list[Stage]) -> list[str]:
    """Time of the stages together, at least that where some have none, and bytes that they wrote."""
    times = [stage.seconds for stage in stages if stage.seconds is not None]
    sizes = [stage.size for stage in stages if stage.size is not None]
    time = seconds(sum(times) if times else None, at_least=0 < len(times) < len(stages))
    return [time, size(sum(sizes) if sizes else None)]


def _stage(stage: Any) -> Stage:
    outs = tuple(Path(out.fs_path).relative_to(Path.cwd()).as_posix() for out in stage.outs)
    sizes = [out.meta.size for out in stage.outs if out.meta and out.meta.size is not None]
    return Stage(address=stage.addressing, outs=outs, seconds=_seconds(outs), size=sum(sizes) if sizes else None)


def _seconds(outs: tuple[str, ...]) -> float | None:
    records = (read_json(TIMES / f"{artifact_name(Path(out))}.json") for out in outs)
    return next((record["seconds"] for record in records if record), None)
