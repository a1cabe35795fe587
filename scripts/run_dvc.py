"""Runs DVC, with a faster way to read and write dvc.lock, and to read params.yaml.

    python scripts/run_dvc.py repro [ARGUMENT...]

After each stage DVC reads dvc.lock and writes it again, with a parser and a writer that keep comments and are written
in Python. That takes seconds a stage where all branches are in the file. But dvc.lock has no comments, libyaml reads it
too, with which DVC reads what it only reads, and mostly it is as it was written last but for one entry. The file
that is written is the same to the byte.

Of each stage DVC reads params.yaml again, several times. Here it is parsed again only when it has changed.
"""

import copy
import io
import sys
from pathlib import Path
from typing import Any, TextIO

import dvc.cli
from dvc.utils.serialize import _yaml

LOCK = {"schema", "stages"}  # what dvc.lock holds

parse_plain, parse_with_comments, dump_all = _yaml.parse_yaml, _yaml.parse_yaml_for_update, _yaml._dump
entries: dict[str, tuple[str, str]] = {}  # of each stage: its entry as Python shows it, and as YAML
written: dict[str, Any] = {}  # the text of dvc.lock that was written last, and what it holds
known: dict[str, tuple[str, Any]] = {}  # of each file that was read: its text, and what it holds


def parse_changed(text: str, path: Any, typ: str = "safe") -> Any:
    """Read a YAML file: `dvc.utils.serialize.parse_yaml`."""
    if typ != "safe":
        return parse_plain(text, path, typ)
    name = str(path)
    if name not in known or known[name][0] != text:
        known[name] = text, parse_plain(text, path)
    return copy.deepcopy(known[name][1])


def parse(text: str, path: str) -> Any:
    """Read a YAML file that is going to be changed: `dvc.utils.serialize.parse_yaml_for_update`."""
    if Path(path).name != "dvc.lock":
        return parse_with_comments(text, path)
    return copy.deepcopy(written[text]) if text in written else _yaml.parse_yaml(text, path)


def dump(data: Any, stream: TextIO) -> Any:
    """Write a YAML file: `dvc.utils.serialize._yaml._dump`."""
    if data.keys() != LOCK or not data["stages"]:
        return dump_all(data, stream)
    text = yaml({"schema": data["schema"]}) + "stages:\n"
    for name, stage in data["stages"].items():
        shown = repr(stage)
        if name not in entries or entries[name][0] != shown:
            entries[name] = shown, yaml({"stages": {name: stage}}).partition("\n")[2]
        text += entries[name][1]
    written.clear()
    written[text] = copy.deepcopy(data)
    return stream.write(text)


def yaml(data: Any) -> str:
    """As DVC writes it."""
    text = io.StringIO()
    dump_all(data, text)
    return text.getvalue()


if __name__ == "__main__":
    _yaml.parse_yaml, _yaml.parse_yaml_for_update, _yaml._dump = parse_changed, parse, dump
    sys.exit(dvc.cli.main(sys.argv[1:]))
