"""A stage reads what dvc.yaml declares for it and nothing else.

It runs in a folder that holds only its declared inputs, and leaves the same bytes as in the whole project: the same
seed makes the same bytes. One that reads something undeclared, which DVC would never run again for, misses a file here.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest

from gnn_encoder.pipeline.stage import read_stages

from ..pipelines import MADE, Project
from ..project import DECLARED, ROOT


@pytest.mark.parametrize("script", sorted({one.name for one in read_stages(ROOT)}))
def test_it_makes_the_same_of_what_is_declared(reproduced: tuple[Any, Any], tmp_path: Path, script: str) -> None:
    project = reproduced[0]
    *_, stage = (one for one in read_stages(project.folder) if one.name == script)
    alone = Project(tmp_path / "alone", project.environment)
    for name in (*DECLARED, f"stages/{stage.name}.py", "tests/tiny", *stage.inputs):
        copy(project.folder / name, alone.folder / name)
    given = alone.hashes(*MADE)
    ran = alone.stage(stage.name, *([stage.key] if stage.key else []))
    assert ran.status == 0, ran.output
    declared = [str(path) for path in (*stage.outs, *stage.shown)]
    made = alone.hashes(*declared)
    assert made == project.hashes(*declared)
    assert alone.hashes(*MADE) == given | made, "no input has changed, and nothing else was made"


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)  # an input may lie in another one
    else:
        shutil.copy(source, target)
