"""scripts/run_dvc.py reads YAML and changes dvc.lock as DVC does."""

import re
import runpy
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pytest
from dvc.utils.serialize import _yaml, load_yaml, modify_yaml

from .project import ROOT

OURS = runpy.run_path(str(ROOT / "scripts" / "run_dvc.py"))
# What YAML reads as something else where it is not quoted, or writes in several ways.
VALUES = [
    *(None, True, 0, -3, 1.0, 5e-05, 1e20, 0.1, float("inf"), "", " ", "off", "yes", "null", "~", "1e-3", "012", "1_0"),
    *("2026-01-02", "12:30", "a: b", "- a", "#", "é", "two\nlines\n", "word " * 60, "x" * 200, "it's", '"', "\t", "="),
]


@pytest.fixture
def use_ours(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Reads and writes as run_dvc.py does from now on."""

    def use() -> None:
        monkeypatch.setattr(_yaml, "parse_yaml", OURS["parse_changed"])
        monkeypatch.setattr(_yaml, "parse_yaml_for_update", OURS["parse"])
        monkeypatch.setattr(_yaml, "_dump", OURS["dump"])

    return use


def add_stages(file: Path) -> bytes:
    """Add two, one after the other, as DVC does when they have run; then change the first."""
    for name, number in (("new", 1), ("newer", 1), ("new", True), ("new", 1.0)):
        with modify_yaml(str(file)) as data:
            values = {"list": VALUES, "empty": [], "none": {}, "nested": [[number], {"a": None}]}
            entry = OrderedDict(cmd="run", deps=[{"path": "a", "size": 1}], params={"params.yaml": values})
            data.setdefault("stages", {}).update({name: entry})
    return file.read_bytes()


def one_entry_of_each_stage(lock: str) -> bytes:
    head, *entries = re.split(r"^(?=  \S)", lock, flags=re.MULTILINE)
    return "".join([head, *{re.split("[@:]", entry)[0]: entry for entry in entries}.values()]).encode()


LOCK = one_entry_of_each_stage((ROOT / "dvc.lock").read_text(encoding="utf-8"))


@pytest.mark.parametrize("before", [b"", LOCK], ids=["empty", "every stage"])
def test_the_file_is_the_same_to_the_byte(tmp_path: Path, use_ours: Callable[[], None], before: bytes) -> None:
    file = tmp_path / "dvc.lock"
    file.write_bytes(before)
    theirs = add_stages(file)
    file.write_bytes(before)
    use_ours()
    assert add_stages(file) == theirs
    assert theirs.startswith(before)
    stages = load_yaml(file)["stages"]
    assert not before or len(stages) > 25
    assert stages["newer"]["params"]["params.yaml"]["list"] == VALUES
    assert str(stages["new"]["params"]["params.yaml"]["nested"][0]) == "[1.0]"


def test_other_files_keep_their_comments(tmp_path: Path, use_ours: Callable[[], None]) -> None:
    file = tmp_path / "dvc.yaml"
    file.write_text("# why\nstages: {}\n")
    use_ours()
    add_stages(file)
    assert file.read_text().startswith("# why\nstages:")


def test_a_file_that_is_read_again(tmp_path: Path, use_ours: Callable[[], None]) -> None:
    """It is as it is now, whatever a reader did with what was read before."""
    file, other = tmp_path / "params.yaml", tmp_path / "other.yaml"
    use_ours()
    for text, expected in (("a: [1]\n", {"a": [1]}), ("a: [1]\n", {"a": [1]}), ("a: [2]\n", {"a": [2]}), ("", {})):
        file.write_text(text)
        found = load_yaml(str(file))
        assert found == expected
        found.setdefault("a", []).append(3)
    other.write_text("a: [2]\n")
    assert load_yaml(str(other)) == {"a": [2]}
    other.write_text("a: [2\n")
    with pytest.raises(_yaml.YAMLFileCorruptedError):
        load_yaml(str(other))
