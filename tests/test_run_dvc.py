"""scripts/run_dvc.py changes dvc.lock as DVC does."""

import runpy
from collections import OrderedDict
from pathlib import Path

import pytest
from dvc.utils.serialize import _yaml, load_yaml, modify_yaml

from .project import ROOT

parse = runpy.run_path(str(ROOT / "scripts" / "run_dvc.py"))["parse"]
# What YAML reads as something else where it is not quoted, or writes in several ways.
VALUES = [
    *(None, True, 0, -3, 1.0, 5e-05, 1e20, 0.1, float("inf"), "", " ", "off", "yes", "null", "~", "1e-3", "012", "1_0"),
    *("2026-01-02", "12:30", "a: b", "- a", "#", "é", "two\nlines\n", "word " * 60, "x" * 200, "it's", '"', "\t", "="),
]


def add_stages(file: Path) -> bytes:
    """Add two, one after the other, as DVC does when they have run."""
    for name in ("new", "newer"):
        with modify_yaml(str(file)) as data:
            values = {"list": VALUES, "empty": [], "none": {}, "nested": [[1], {"a": None}]}
            entry = OrderedDict(cmd="run", deps=[{"path": "a", "size": 1}], params={"params.yaml": values})
            data.setdefault("stages", {}).update({name: entry})
    return file.read_bytes()


@pytest.mark.parametrize("before", [b"", (ROOT / "dvc.lock").read_bytes()], ids=["empty", "all branches"])
def test_the_file_is_the_same_to_the_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes) -> None:
    file = tmp_path / "dvc.lock"
    file.write_bytes(before)
    theirs = add_stages(file)
    file.write_bytes(before)
    monkeypatch.setattr(_yaml, "parse_yaml_for_update", parse)
    assert add_stages(file) == theirs
    assert theirs.startswith(before)
    assert load_yaml(file)["stages"]["newer"]["params"]["params.yaml"]["list"] == VALUES


def test_other_files_keep_their_comments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "dvc.yaml"
    file.write_text("# why\nstages: {}\n")
    monkeypatch.setattr(_yaml, "parse_yaml_for_update", parse)
    add_stages(file)
    assert file.read_text().startswith("# why\nstages:")
