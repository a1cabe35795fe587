"""The revision of the code, and the hash of the artifacts, that a report shows."""

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from gnn_encoder.presenting.pipeline import REPORT

CODE = ("src", "stages", "dvc.yaml", "params.yaml")


def code_revision() -> str:
    """The last commit that changed the code or the experiment; commits of metrics or texts alone do not count."""
    commit = _git("log", "-1", "--format=%h, %cs", "--", *CODE)
    if not commit:
        return "not in a git repository"
    changed = _git("status", "--porcelain", "--", *CODE)
    return f"{commit}, and changes that are not committed" if changed else commit


def lock_hash(path: Path = Path("dvc.lock")) -> str | None:
    """Hash of dvc.lock without the report's own entry, in 12 hexadecimal digits; None if there is no such file."""
    if not path.is_file():
        return None
    stages: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    others = {name: stage for name, stage in stages["stages"].items() if name != REPORT}
    return hashlib.blake2b(json.dumps(others, sort_keys=True).encode(), digest_size=6).hexdigest()


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
