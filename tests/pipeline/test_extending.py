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

from ..pipelines import serving
from .test_dag import started

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
SECTION = "## A dual-encoder system"
SIZE = "test_the_size_of_the_pipelines"  # a limit on the project's own
# The line above a block that is to be put into a file, and the block.
STEP = re.compile(
    r"^(?:New file `(?P<new>[^`]+)`|In `(?P<old>[^`]+)`, (?P<where>before|after) the line `(?P<line>[^`]+)`):\n\n"
    r"```\w+\n(?P<block>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
OTHER_FILES = 3  # at most so many files change, beside the system's own


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
            target.parent.mkdir(exist_ok=True)
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
def extended(reproduced: tuple[Any, Any], copy_of: Callable[..., Any]) -> Any:
    """A copy of the project in which everything has run, with the page applied to it."""
    project = copy_of(reproduced[0])
    for step in read_steps(PAGE.read_text()):
        step.apply(project.folder)
    return project


OWN = ["pipelines/foo/dvc.yaml", "src/gnn_encoder/foo.py", "stages/train_foo.py"]


def test_three_files_change_beside_its_own(extended: Any) -> None:
    changed = extended.git("diff", "--name-only").split()
    assert extended.git("ls-files", "--others", "--exclude-standard").split() == OWN
    assert 0 < len(changed) <= OTHER_FILES, changed


def test_its_code_passes_the_checks(extended: Any, tmp_path: Path) -> None:
    for check in (["ruff", "check"], ["ruff", "format", "--check"]):
        ran = extended.run(sys.executable, "-m", *check, *OWN[1:])
        assert ran.status == 0, ran.output
    tests = ("tests/pipeline/test_systems.py", "tests/pipeline/test_read_stages.py", "tests/test_code_dependencies.py")
    own = ("-p", "no:cacheprovider", f"--basetemp={tmp_path / 'theirs'}", "--deselect", f"{tests[1]}::{SIZE}")
    source = {"PYTHONPATH": str(extended.folder / "src")}
    ran = replace(extended, environment=extended.environment | source).run(
        sys.executable, "-m", "pytest", "-q", *own, *tests
    )
    assert ran.status == 0, ran.output


@pytest.mark.slow
def test_evaluation_has_its_row(extended: Any, tmp_path: Path) -> None:
    """In forks of a process that has loaded the extended source; no other system runs again."""
    project = replace(extended, environment=extended.environment | {"FORKS": str(tmp_path / "socket")})
    with serving(project.folder, project.environment):
        ran = project.dvc("repro", "pipelines/foo/dvc.yaml")
    assert ran.status == 0, ran.output[-5000:]
    assert started(ran) == ["train_foo", "cache_passages@foo", "build_index@foo", "evaluate@foo"]
    metrics = extended.folder / "metrics" / "foo"
    means = json.loads((metrics / "test.json").read_text())
    assert list(means) == ["dual_encoder", "foo"]
    measures = yaml.safe_load((extended.folder / "params.yaml").read_text())["evaluate"]["measures"]
    assert list(means["foo"]) == measures
    assert json.loads((metrics / "significance.json").read_text())["test"]["foo"]["baseline"] == "dual_encoder"
    start, own = (pl.read_csv(extended.folder / "data" / name / "history.csv") for name in ("dual_encoder", "foo"))
    assert own["dev_rr10"][0] == start["dev_rr10"].max(), "it was trained on from M_de"
    assert own["loss"].count() > 0
