"""A stage reads what dvc.yaml declares for it and nothing else.

It runs in a folder that holds only its declared inputs, and leaves the same bytes as in the whole project. One
that reads something undeclared, which DVC would never run again for, misses a file here.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from gnn_encoder.pipeline.experiment import lay_over
from gnn_encoder.pipeline.stage import Declared, read_stages

from ..pipelines import TINY_PARAMS, Project
from ..project import DECLARED, declare

MADE = ("data", "metrics", "plots")


def stages_of_the_tiny_experiment() -> list[Declared]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        declare(folder)
        lay_over([str(TINY_PARAMS)], folder / "params.yaml")
        return list(read_stages(folder))


STAGES = stages_of_the_tiny_experiment()
ALONE = {one.name: one for one in STAGES}.values()  # of those that one script runs, the last


def test_all_of_them(reproduced: tuple[Any, Any]) -> None:
    assert list(read_stages(reproduced[0].folder)) == STAGES


@pytest.mark.parametrize("stage", ALONE, ids=lambda stage: stage.address)
def test_it_makes_the_same_of_what_is_declared(reproduced: tuple[Any, Any], tmp_path: Path, stage: Declared) -> None:
    project = reproduced[0]
    alone = Project(tmp_path / "alone", project.environment)
    for name in (*DECLARED, f"stages/{stage.name}.py", "tests/tiny", *stage.inputs):
        copy(project.folder / name, alone.folder / name)
    given = hashes(alone, MADE)
    ran = alone.stage(stage.name, *([stage.key] if stage.key else []))
    assert ran.status == 0, ran.output
    declared = [str(path) for path in (*stage.outs, *stage.metrics, *stage.plots)]
    made = hashes(alone, declared)
    assert made == hashes(project, declared)
    assert hashes(alone, MADE) == given | made, "no input has changed, and nothing else was made"


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)  # an input may lie in another one
    else:
        shutil.copy(source, target)


def hashes(project: Project, places: Iterable[str]) -> dict[str, str]:
    """Content of some files, and of every file below some folders, by path."""
    found: dict[str, str] = {}
    for place in places:
        path = project.folder / place
        if path.is_file():
            found[place] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found |= project.hashes(place)
    return found
