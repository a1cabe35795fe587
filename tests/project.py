"""The project that the tests are of, and what a stage reads of it before anything else."""

import re
import runpy
import shutil
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from gnn_encoder import cli
from gnn_encoder.pipeline.stage import run

ROOT = Path(__file__).parents[1]
DECLARED = ("dvc.yaml", "pipelines", "systems.yaml", "params.yaml")


def code_of(page: str, language: str) -> list[str]:
    """The blocks of code in a page of docs/ that are in this language, such as sh."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def declare(folder: Path) -> None:
    """Copy there what every stage script reads first: the pipeline, the systems, the experiment of the root."""
    for name in DECLARED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)


def set_params(folder: Path, **values: Any) -> None:
    """Change its params.yaml: `mgt__beta=0.5`."""
    path = folder / "params.yaml"
    params = yaml.safe_load(path.read_text())
    for name, value in values.items():
        *sections, key = name.split("__")
        reduce(lambda section, part: section[part], sections, params)[key] = value
    path.write_text(yaml.safe_dump(params))


def call(*arguments: str, stdin: str | bytes = "") -> tuple[int, str, str]:
    """Run `gnn-encoder` in this process: exit status, stdout, stderr."""
    result = CliRunner().invoke(cli.app, list(arguments), input=stdin)
    return result.exit_code, result.stdout, result.stderr


def printed(*arguments: str) -> list[str]:
    """The lines that `gnn-encoder` prints; it ends well."""
    code, out, err = call(*arguments)
    assert code == 0, err
    return out.splitlines()


def refusal(*arguments: str) -> str:
    """The error of `gnn-encoder`, which is one line, and leaves every file of the current folder as it was."""
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    code, out, err = call(*arguments)
    assert (code, out) == (2, "") and err.startswith("error: ") and err.count("\n") == 1
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
    return err.removeprefix("error: ").rstrip("\n")


def call_stage(name: str, *arguments: str, **replaced: Callable[..., Any]) -> None:
    """Run a stage script in this process and the current folder, with some of its functions replaced."""
    path = str(ROOT / "stages" / f"{name}.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [name, *arguments])
        if not replaced:
            runpy.run_path(path, run_name="__main__")
            return
        main = runpy.run_path(path)["main"]
        main.__globals__.update(replaced)
        run(main)
