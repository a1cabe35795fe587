"""Runs DVC, with a faster way to read and write dvc.lock.

    python scripts/run_dvc.py repro [ARGUMENT...]

After each stage DVC reads dvc.lock and writes it again, with a parser and a writer that keep comments and are written
in Python. That takes seconds a stage where all branches are in the file. But dvc.lock has no comments, libyaml reads it
too, with which DVC reads what it only reads, and all entries but one stay as they are. The file that is written is the
same to the byte.
"""

import io
import sys
from pathlib import Path
from typing import Any, TextIO

import dvc.cli
from dvc.utils.serialize import _yaml

LOCK = {"schema", "stages"}  # what dvc.lock holds

parse_with_comments, dump_all = _yaml.parse_yaml_for_update, _yaml._dump
written: dict[str, tuple[str, str]] = {}  # of each stage: its entry as Python shows it, and as YAML


def parse(text: str, path: str) -> Any:
    """Read a YAML file that is going to be changed: `dvc.utils.serialize.parse_yaml_for_update`."""
    return (_yaml.parse_yaml if Path(path).name == "dvc.lock" else parse_with_comments)(text, path)


def dump(data: Any, stream: TextIO) -> Any:
    """Write a YAML file: `dvc.utils.serialize._yaml._dump`."""
    if data.keys() != LOCK or not data["stages"]:
        return dump_all(data, stream)
    dump_all({"schema": data["schema"]}, stream)
    stream.write("stages:\n")
    for name, stage in data["stages"].items():
        shown = repr(stage)
        if name not in written or written[name][0] != shown:
            written[name] = shown, entry(name, stage)
        stream.write(written[name][1])
    return None


def entry(name: str, stage: Any) -> str:
    """A stage as it stands in dvc.lock."""
    text = io.StringIO()
    dump_all({"stages": {name: stage}}, text)
    return text.getvalue().partition("\n")[2]


if __name__ == "__main__":
    _yaml.parse_yaml_for_update, _yaml._dump = parse, dump
    sys.exit(dvc.cli.main(sys.argv[1:]))
