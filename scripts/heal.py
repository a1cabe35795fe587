"""Put right what a killed DVC left half-written, so that `dvc repro` goes on. scripts/reproduce.sh runs it first.

DVC writes two kinds of files in place: `.dvc/tmp/rwlock`, its notes of who uses what, and `dvc.lock` beside each
`dvc.yaml`, its records of what has run. A kill while it writes leaves half a file, which stops every later run. None is
needed: the first is empty where no DVC runs; git has a former record, and what has run since then DVC finds in its
cache. Where another DVC runs, nothing is touched.
"""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import yaml
from dvc.schema import COMPILED_LOCKFILE_SCHEMA
from voluptuous import Invalid


def main() -> str | None:
    """Heal, unless something is at work here; returns what the user must do first."""
    at_work = dict(processes())
    if any(Path(word).name == "dvc" for words in at_work.values() for word in words):
        return None
    for number, words in at_work.items():
        if any(word.startswith("stages/") for word in words):
            return f"process {number} of an earlier run is still at work here; wait for it, or `kill {number}`"
    Path(".dvc/tmp/rwlock").unlink(missing_ok=True)
    for record in (Path("dvc.lock"), *Path("pipelines").glob("*/dvc.lock")):
        if record.exists() and not whole(record.read_text(encoding="utf-8", errors="replace")):
            heal(record)
    return None


def processes() -> list[tuple[int, list[str]]]:
    """The number and the command of each process that works in this folder or below it."""
    found = [one.info for one in psutil.process_iter(["pid", "cmdline", "cwd"])]
    here = [one for one in found if one["cwd"] and Path(one["cwd"]).is_relative_to(Path.cwd())]
    return [(one["pid"], one["cmdline"] or []) for one in here]


def whole(text: str) -> bool:
    """Whether DVC's record is one to its last line, or has git's marks of a conflict, which the user is to solve."""
    if "<<<<<<<" in text:
        return True
    try:
        COMPILED_LOCKFILE_SCHEMA(yaml.load(text, yaml.CSafeLoader))
    except (yaml.YAMLError, Invalid):
        return False
    return text.endswith("\n")


def heal(record: Path) -> None:
    """Put git's version in the place of a half-written record; where git has none, DVC starts a new one."""
    former = subprocess.run(["git", "show", f":./{record}"], capture_output=True, check=False)
    new = record.with_suffix(".former")
    new.write_bytes(former.stdout)
    new.replace(record) if former.returncode == 0 else record.unlink()
    new.unlink(missing_ok=True)
    print(f"heal: {record} was half-written, by a DVC that was killed; its cache has what was run", flush=True)


if __name__ == "__main__":
    os.chdir(Path(__file__).parents[1])
    sys.exit(main())
