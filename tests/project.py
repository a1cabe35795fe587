"""The project that the tests are of, and what a stage reads of it before anything else."""

import runpy
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DECLARED = ("dvc.yaml", "systems.yaml", "params.yaml")


def declare(folder: Path) -> None:
    """Copy there what every stage script reads first: the pipeline, the systems, the experiment of the root."""
    for name in DECLARED:
        shutil.copy(ROOT / name, folder / name)


def call_stage(name: str, *arguments: str) -> None:
    """Run a stage script in this process and the current folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(ROOT / "stages" / f"{name}.py"), run_name="__main__")
