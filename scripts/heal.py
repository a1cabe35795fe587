"""Put right what a killed DVC left half-written, so that `dvc repro` goes on. scripts/reproduce.sh runs it first.

    python scripts/heal.py

DVC writes two kinds of files in place: `.dvc/tmp/rwlock`, its notes of who uses what, and `dvc.lock` beside each
`dvc.yaml`, its records of what has run. A kill while it writes leaves half a file, which stops every later run. None is
needed: the first is empty where no DVC runs; git has a former record, and what has run since then DVC finds in its
cache. What else a kill leaves, DVC copes with by itself. Where another DVC runs, nothing is touched.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import psutil
import yaml
import zc.lockfile
from voluptuous import Invalid

TEMPORARY = Path(".dvc/tmp")
RWLOCK = TEMPORARY / "rwlock"
RECORD = "dvc.lock"
STAGE = re.compile(r"(^|/)stages/\w+\.py$")


def main() -> int:
    """Heal, unless something is at work here."""
    TEMPORARY.mkdir(exist_ok=True)
    with ExitStack() as held:
        try:
            # DVC's own locks, which end with the process that holds them: while we have them no other DVC starts.
            for name in ("lock", "rwlock.lock"):
                held.callback(zc.lockfile.SimpleLockFile(str(TEMPORARY / name)).close)
        except zc.lockfile.LockError:
            return 0
        # While a stage runs, its DVC holds neither lock; then it is in the notes, or seen among the processes.
        if living(noted()) or at_work(lambda words: any(Path(word).name == "dvc" for word in words)):
            return 0
        if orphan := at_work(lambda words: any(map(STAGE.search, words))):
            say(f"process {orphan.pid} of an earlier run is still at work here; wait for it, or `kill {orphan.pid}`")
            return 1
        heal_notes()
        for record in (Path(RECORD), *sorted(Path("pipelines").glob(f"*/{RECORD}"))):
            heal_record(record)
    return 0


def noted() -> list[int] | None:
    """Processes that DVC's notes name; None where they cannot be read."""
    from dvc.rwlock import SCHEMA

    try:
        notes = SCHEMA(json.loads(RWLOCK.read_bytes()))
    except FileNotFoundError:
        return []
    except (ValueError, Invalid):
        return None
    readers = [reader for path in notes["read"].values() for reader in path]
    return [process["pid"] for process in (*notes["write"].values(), *readers)]


def living(pids: list[int] | None) -> bool:
    """Whether one of them lives and is older than the notes: a younger one has the number of a dead one."""
    written = RWLOCK.stat().st_mtime if pids else 0.0
    for pid in pids or []:
        try:
            if psutil.Process(pid).create_time() <= written:
                return True
        except psutil.NoSuchProcess:
            continue
    return False


def at_work(wanted: Callable[[list[str]], bool]) -> psutil.Process | None:
    """A process in this folder or below it whose command is a wanted one."""
    here = Path.cwd()
    for process in psutil.process_iter():
        try:
            if wanted(process.cmdline()) and Path(process.cwd()).is_relative_to(here):
                return process
        except psutil.Error:  # it ended meanwhile, or is another user's
            continue
    return None


def heal_notes() -> None:
    """Remove notes that are half-written, or of the dead."""
    pids = noted()
    if pids is None:
        say(f"{RWLOCK} is half-written, by a DVC that was killed; removed it")
    elif pids:
        say(f"{RWLOCK} names a DVC that was killed; removed it")
    if pids != []:
        RWLOCK.unlink()


def heal_record(record: Path) -> None:
    """Put git's version in the place of a half-written record."""
    if whole(record):
        return
    former = subprocess.run(["git", "show", f":./{record}"], capture_output=True, check=False)
    aside = TEMPORARY / f"{'-'.join(record.parts)}.broken"
    record.replace(aside)
    if former.returncode == 0:
        copy = aside.with_suffix(".former")
        copy.write_bytes(former.stdout)
        copy.replace(record)
    origin = "took git's" if former.returncode == 0 else "git has none: DVC starts a new one"
    say(f"{record} is half-written, by a DVC that was killed; moved it to {aside} and {origin}")


def whole(record: Path) -> bool:
    """Whether DVC's record is one, to its last line; true too of what no kill explains."""
    from dvc.schema import COMPILED_LOCKFILE_SCHEMA

    try:
        text = record.read_text(encoding="utf-8")
        if "<<<<<<<" in text:  # git's marks of a conflict: for the user to solve
            return True
        COMPILED_LOCKFILE_SCHEMA(yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except FileNotFoundError:
        return True
    except (ValueError, yaml.YAMLError, Invalid):
        return False
    return text.endswith("\n")


def say(line: str) -> None:
    """Tell what was done."""
    print(f"heal: {line}", flush=True)


if __name__ == "__main__":
    os.chdir(Path(__file__).parents[1])
    sys.exit(main())
