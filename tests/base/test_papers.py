"""The table of docs/papers.md, of what the default experiment does otherwise than the papers, is true of the files."""

import re
from functools import reduce
from pathlib import Path
from typing import Any

import yaml

from ..project import ROOT

HEADING = "## The papers and the default\n"


def values(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def default_and_key() -> list[tuple[list[str], list[str]]]:
    """What stands in code marks in the columns 'default here' and 'key' of each row."""
    section = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8").split(HEADING)[1].split("\n## ")[0]
    cells = [line.split("|")[3:5] for line in section.splitlines() if line.startswith("| ")]
    marked = [tuple(re.findall(r"`([^`]+)`", cell) for cell in row) for row in cells[1:]]
    return [(default, keys) for default, keys in marked if default or keys]


def test_each_default_is_the_value_of_its_key() -> None:
    params = values(ROOT / "params.yaml")
    rows = default_and_key()
    assert (["40"], ["mgt.alone.steps"]) in rows
    told = {key: yaml.safe_load(value) for default, keys in rows for key, value in zip(keys, default, strict=True)}
    assert told == {key: reduce(lambda section, name: section[name], key.split("."), params) for key in told}
