"""Runs DVC, with a faster way to read dvc.lock.

    python scripts/run_dvc.py repro [ARGUMENT...]

After each stage DVC reads dvc.lock to write it again, with a parser that keeps comments and is written in Python. That
takes a second a stage where all branches are in the file. But dvc.lock has no comments, and libyaml reads it too, with
which DVC reads what it only reads. The file that is written is the same to the byte.
"""

import sys
from pathlib import Path
from typing import Any

import dvc.cli
from dvc.utils.serialize import _yaml

parse_with_comments = _yaml.parse_yaml_for_update


def parse(text: str, path: str) -> Any:
    """Read a YAML file that is going to be changed: `dvc.utils.serialize.parse_yaml_for_update`."""
    return (_yaml.parse_yaml if Path(path).name == "dvc.lock" else parse_with_comments)(text, path)


if __name__ == "__main__":
    _yaml.parse_yaml_for_update = parse
    sys.exit(dvc.cli.main(sys.argv[1:]))
