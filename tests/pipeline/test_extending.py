"""docs/extending.md is followed to the letter: the system that it adds is trained, judged and shown."""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from ..test_code_dependencies import problems
from .conftest import serving

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
SECTION = "## A dual-encoder system"
# The line above a block that is to be put into a file, and the block.
STEP = re.compile(
    r"^(?:New file `(?P<new>[^`]+)`|In `(?P<old>[^`]+)`, (?P<where>before|after) the line `(?P<line>[^`]+)`):\n\n"
    r"```\w+\n(?P<block>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
OTHER_FILES = 4  # at most so many files change, beside the system's own


@dataclass(frozen=True)
class Step:
    """A block and its place: a new file, or before or after the one line of an old file that reads `line`."""

    path: str
    block: str
    where: str = ""
    line: str = ""

    def apply(self, folder: Path) -> None:
        target = folder / self.path
        if not self.where:
            assert not target.exists(), f"{self.path} is there already"
            target.write_text(self.block)
            return
        lines = target.read_text().splitlines(keepends=True)
        found = [number for number, text in enumerate(lines) if text.partition(" #")[0].strip() == self.line]
        assert len(found) == 1, f"{self.path} has {len(found)} lines {self.line!r}, not one"
        lines.insert(found[0] + (self.where == "after"), self.block)
        target.write_text("".join(lines))


def read_steps(page: str) -> list[Step]:
    """The steps of the section on a system, in order."""
    section = page[page.index(SECTION) :]
    section = section[: section.find("\n## ", 1)]
    assert section.count("```") // 2 == len(STEP.findall(section)) + section.count("```sh"), "a block has no place"
    return [
        Step(found["new"] or found["old"], found["block"], found["where"] or "", found["line"] or "")
        for found in STEP.finditer(section)
    ]


@pytest.fixture
def extended(fresh: Any, copy_of: Callable[..., Any]) -> Any:
    """A copy of the project in which nothing has run, with the page applied to it."""
    project = copy_of(fresh)
    for step in read_steps(PAGE.read_text()):
        step.apply(project.folder)
    return project


def test_four_files_change_beside_its_own(extended: Any) -> None:
    changed = extended.git("diff", "--name-only").split()
    new = extended.git("ls-files", "--others", "--exclude-standard").split()
    assert new == ["src/gnn_encoder/foo.py", "stages/train_foo.py"]
    assert 0 < len(changed) <= OTHER_FILES, changed


def test_its_code_passes_the_checks(extended: Any) -> None:
    own = ["src/gnn_encoder/foo.py", "stages/train_foo.py"]
    for check in (["ruff", "check"], ["ruff", "format", "--check"]):
        ran = extended.run(sys.executable, "-m", *check, *own)
        assert ran.status == 0, ran.output
    assert [problem for problem in problems(extended.folder) if problem.startswith("train_foo:")] == []


def test_the_registry_s_tests_allow_for_it(extended: Any, tmp_path: Path) -> None:
    own = ("-p", "no:cacheprovider", f"--basetemp={tmp_path / 'theirs'}")
    ran = extended.run(sys.executable, "-m", "pytest", "-q", *own, "tests/core/test_systems.py")
    assert ran.status == 0, ran.output


@pytest.mark.slow
def test_evaluation_has_its_row(extended: Any, tmp_path: Path) -> None:
    project = replace(
        extended, environment=extended.environment | {"GNN_ENCODER_SERVER": str(tmp_path / "s" / "socket")}
    )
    with serving(project):
        ran = project.dvc("repro", "evaluate@foo")
    assert ran.status == 0, ran.output[-5000:]
    metrics = extended.folder / "metrics" / "foo"
    means = json.loads((metrics / "test.json").read_text())
    assert list(means) == ["dual_encoder", "foo"]
    measures = yaml.safe_load((extended.folder / "params.yaml").read_text())["evaluate"]["measures"]
    assert list(means["foo"]) == measures
    assert json.loads((metrics / "significance.json").read_text())["test"]["foo"]["baseline"] == "dual_encoder"
    start, own = (pl.read_csv(extended.folder / "data" / name / "history.csv") for name in ("dual_encoder", "foo"))
    assert own["dev_rr10"][0] == start["dev_rr10"].max(), "it was trained on from M_de"
    assert own["loss"].count() > 0
