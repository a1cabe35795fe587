"""The packages that a dvc.yaml declares for a stage are those that its script imports.

A package that is not declared never triggers a rerun: the stage's old output would pass for the new code's. Left out
is what runs stages and places artifacts, since it decides nothing that is in them, and its values are declared as
parameters.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from gnn_encoder.pipeline.stage import Declared, lookup, read_stages

from .project import ROOT

STAGES = list(read_stages(ROOT))
PACKAGE = ROOT / "src" / "gnn_encoder"
RUNS = {PACKAGE / "pipeline" / f"{name}.py" for name in ("experiment", "params", "project", "section", "stage")}
PARAMS = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
MISSING = object()


@cache
def imported(file: Path) -> frozenset[Path]:
    """The files of the package that a file may import itself, in functions too."""
    found = set[Path]()
    for name in names(ast.parse(file.read_text(encoding="utf-8"))):
        parts = name.split(".")
        if parts[0] == "gnn_encoder":
            places = [PACKAGE.joinpath(*parts[1:length]) for length in range(2, len(parts) + 1)]
            found |= {path for place in places for path in (place.with_suffix(".py"), place / "__init__.py")}
    return frozenset(filter(Path.is_file, found))


def names(tree: ast.AST) -> Iterator[str]:
    """Modules that may be imported; `from a import b` gives both `a` and `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def reached(script: Path) -> set[Path]:
    """A script and all that it can come to import, relative to the root, but for an `__init__.py` of text alone."""
    found, waiting = set[Path](), [script]
    while waiting:
        if (file := waiting.pop()) not in found:
            found.add(file)
            waiting += imported(file) - RUNS
    decisive = (file for file in found if file.name != "__init__.py" or has_code(file))
    return {file.relative_to(ROOT) for file in decisive}


def has_code(file: Path) -> bool:
    return any(not isinstance(node, ast.Expr) for node in ast.parse(file.read_text(encoding="utf-8")).body)


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.address)
def test_what_a_stage_declares(stage: Declared) -> None:
    script = Path("stages") / f"{stage.name}.py"
    assert stage.cmd.split()[:2] == ["scripts/python", str(script)]
    files = reached(ROOT / script)
    assert sorted(file for file in files if not any(file == one or one in file.parents for one in stage.code)) == []
    assert [one for one in stage.code if not any(one == file or one in file.parents for file in files)] == [], "in vain"
    assert [name for name in stage.params if lookup(PARAMS, name, MISSING) is MISSING] == [], "not in params.yaml"


def test_every_stage_script_is_a_stage_and_addresses_are_unique() -> None:
    assert {path.stem for path in (ROOT / "stages").glob("*.py")} == {stage.name for stage in STAGES}
    assert len({stage.address for stage in STAGES}) == len(STAGES)
