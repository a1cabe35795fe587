"""Put right what a killed DVC left half-written, so that `dvc repro` goes on. scripts/reproduce.sh runs it first.

A kill may leave half of two files, which stops every later run: DVC's notes of who uses what, `.dvc/tmp/rwlock`, which
are not needed where no DVC runs, and its records of what has run, `dvc.lock`. Git has a former record, and DVC finds in
its cache what has run since then.
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
    """Heal, unless a DVC runs here; returns what the user must do first."""
    all_of_them = [one.info for one in psutil.process_iter(["pid", "cmdline", "cwd"])]
    here = [one for one in all_of_them if one["cwd"] and Path(one["cwd"]).is_relative_to(Path.cwd())]
    at_work = {one["pid"]: one["cmdline"] or [] for one in here}
    if any(Path(word).name == "dvc" for words in at_work.values() for word in words):
        return None
    for number, words in at_work.items():
        if any(word.startswith("stages/") for word in words) and "python" in words[0]:
            return f"process {number} of an earlier run is still at work here; wait for it, or `kill {number}`"
    Path(".dvc/tmp/rwlock").unlink(missing_ok=True)
    for record in (Path("dvc.lock"), *Path("pipelines").glob("*/dvc.lock")):
        if record.exists() and not is_whole(record.read_text(encoding="utf-8", errors="replace")):
            former = subprocess.run(["git", "show", f":./{record}"], capture_output=True, check=False)
            if former.returncode == 0:
                record.write_bytes(former.stdout)
            else:
                record.unlink()  # DVC starts a new one
            print(f"heal: {record} was half-written, by a DVC that was killed; its cache has what was run", flush=True)
    return None


def is_whole(text: str) -> bool:
    """Whether DVC's record is one to its last line."""
    try:
        COMPILED_LOCKFILE_SCHEMA(yaml.load(text, yaml.CSafeLoader))
    except (yaml.YAMLError, Invalid):
        return "<<<<<<<" in text  # git's mark of a conflict, which the user is to solve
    return text.endswith("\n")


if __name__ == "__main__":
    os.chdir(Path(__file__).parents[1])
    sys.exit(main())
