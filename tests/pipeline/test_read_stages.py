"""The pipelines as the stages read them: equal to what DVC itself makes of them, and the mistakes in calling one."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from dvc.repo import Repo
from dvc.stage import PipelineStage

from gnn_encoder.base.errors import UserError
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.project import registry
from gnn_encoder.pipeline.stage import find_stage, read_stages

from ..project import ROOT, declare


def paths(folder: Path, outputs: list[Any]) -> list[str]:
    return [os.path.relpath(output.fs_path, folder) for output in outputs]


def test_equals_what_dvc_reads(tmp_path: Path) -> None:
    declare(tmp_path)
    Repo.init(str(tmp_path), no_scm=True).close()
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    with Repo(str(tmp_path)) as repo:
        expected = {}
        for stage in repo.index.stages:
            assert isinstance(stage, PipelineStage) and Path(stage.wdir) == tmp_path
            read = [dep for dep in stage.deps if type(dep).__name__ == "Dependency"]
            named = {os.path.relpath(dep.fs_path, tmp_path): dep.params for dep in stage.params}
            outs = sorted(os.path.relpath(out.fs_path, tmp_path) for out in stage.outs)
            expected[os.path.relpath(stage.path, tmp_path), stage.name] = (
                stage.cmd,
                paths(tmp_path, read),
                sorted(named.get("params.yaml", [])),
                outs,
            )
    found = {
        (str(one.file), one.address): (
            one.cmd,
            list(map(str, one.deps)),
            sorted(one.params),
            sorted(map(str, one.outs + one.shown)),
        )
        for one in read_stages(tmp_path)
    }
    assert found == expected


def test_the_size_of_the_main_branch() -> None:
    assert len({one.name for one in read_stages(ROOT) if one.file == Path("dvc.yaml")}) <= 14
    assert len((ROOT / "dvc.yaml").read_text().splitlines()) <= 230


def test_the_registry_and_the_pipelines_agree() -> None:
    """What a system is called and compared with stands in the one, how it is made in the others."""
    made = {path.as_posix(): one for one in read_stages(ROOT) for path in one.outs}
    for name in registry().dense:
        for place in (project.embeddings(name), project.index(name), project.runs(name)):
            assert place.as_posix() in made, place
        assert any(path in (project.encoder(name), *project.encoder(name).parents) for path in map(Path, made))
    for branch, one in registry().branches.items():
        stage = made[f"data/evaluation/{branch}"]
        own = {project.runs(system) for system in one.systems}
        others = {project.measured(system).parent.name for system in registry().shown_with(branch)} - {branch}
        assert {path for path in stage.inputs if path.parent == project.RUNS} == own
        measured = {path.name for path in stage.inputs if path.parent == project.MEASURES}
        assert measured == others


FIT = {"cmd": "scripts/python stages/fit.py", "outs": ["data/fit"]}
MEASURE = {"foreach": {"plain": 1, "graph": 2}, "do": {"cmd": "run ${key}", "outs": ["data/m/${key}"]}}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    for name, stages in (("", {"fit": FIT}), ("pipelines/a/", {"measure": MEASURE})):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}, sort_keys=False))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("fitt", [], "dvc.yaml: has no stage fitt; its stages and the scripts in stages/ share names"),
        ("fit", ["plain"], "argument is 'plain': stage fit runs once; leave it out"),
        ("measure", [], "no argument: must be one of plain, graph"),
        ("measure", ["plain", "graph"], "argument is 'plain graph': must be one of plain, graph"),
    ],
)
def test_a_stage_that_is_none(small: Path, name: str, arguments: list[str], message: str) -> None:
    with pytest.raises(UserError) as caught:
        find_stage(name, arguments, small)
    assert str(caught.value).removeprefix(f"{small}/") == message
