"""The stages as DVC reads them from dvc.yaml and dvc.lock: which needs which, their times, and the sizes they wrote."""

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from gnn_encoder.pipeline.stage import TIMES, artifact_name
from gnn_encoder.presenting.artifacts import read_json
from gnn_encoder.presenting.formats import NOTHING, seconds, size
from gnn_encoder.presenting.tables import Table

REPORT = "report"  # the stage that writes the page, and is not shown there


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One run of a stage of dvc.yaml, which may run once for each of several systems.

    Attributes:
        address: `stage` or `stage@system`.
        outs: paths that it writes.
        seconds: None if it was interrupted, or did not run on this machine.
        size: bytes that it wrote; None if it has not run.
    """

    address: str
    outs: tuple[str, ...]
    seconds: float | None
    size: int | None

    @property
    def name(self) -> str:
        """The stage's name in dvc.yaml."""
        return self.address.partition("@")[0]

    @property
    def system(self) -> str:
        """The system that it runs for; empty if the stage runs once."""
        return self.address.partition("@")[2]


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Stages in the order of dvc.yaml, and arrows (a, b) between their addresses: stage b needs stage a."""

    stages: list[Stage]
    arrows: set[tuple[str, str]]


def read_pipeline() -> Pipeline:
    """All stages of the project, except the one that writes the report."""
    from dvc.repo import Repo

    with Repo(".", uninitialized=True) as repo:  # read the stages even if the project has no .dvc folder
        stages = [stage for stage in repo.index.stages if stage.addressing != REPORT]
        # DVC's arrows go from a stage to what it needs.
        arrows = {(needed.addressing, stage.addressing) for stage, needed in repo.index.graph.edges}
        return Pipeline(stages=[_stage(stage) for stage in stages], arrows=arrows)


def stages_table(pipeline: Pipeline) -> Table:
    """One row per stage of dvc.yaml, with its runs added up, and a row for all stages."""
    groups = {name: list(of) for name, of in groupby(pipeline.stages, key=lambda stage: stage.name)}
    rows = [[name, str(len(of)), *_together(of)] for name, of in (groups | {"all": pipeline.stages}).items()]
    note = f"What each stage took here and wrote; {NOTHING} where it was interrupted or not run here"
    return Table(title="Times and sizes", columns=["Stage", "runs", "time", "size"], rows=rows, note=note)


def runs_table(pipeline: Pipeline) -> Table:
    """One row per run of a stage."""
    rows = [[one.address, seconds(one.seconds), size(one.size), ", ".join(one.outs)] for one in pipeline.stages]
    return Table(title="Each run of a stage", columns=["Stage", "time", "size", "writes"], rows=rows)


def _together(stages: list[Stage]) -> list[str]:
    """The sum of the stages' times (a lower bound if some times are missing), and of the bytes that they wrote."""
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
