"""The scratch place, where work waits that is not finished and where small caches lie. Git and DVC ignore it."""

import os
import shutil
import time
from pathlib import Path

SCRATCH = Path(".scratch")
WORK = ".work"  # subfolder of an unfinished artifact, for files that only a resumed call needs; deleted at the end
DAY = 24 * 60 * 60  # seconds


def cached(place: Path, name: str, key: str, *, keep: int) -> Path:
    """Where a cache for some `key` lies: place/name-key. Of the caches of a name, only those used last stay.

    Args:
        key: a fingerprint of all that decides the content.
        keep: caches that a name may have.

    Whoever makes it writes beside it first, under the same name with a suffix; such a folder goes after a day.
    """
    folder = place / f"{name}-{key}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    if folder.is_dir():
        os.utime(folder)
    others = [path for path in folder.parent.glob(f"{name}-*") if path != folder]
    whole = sorted((path for path in others if not path.suffix), key=_last_used, reverse=True)
    half_written = [path for path in others if path.suffix and _last_used(path) < time.time() - DAY]
    for old in (*whole[keep - 1 :], *half_written):
        shutil.rmtree(old, ignore_errors=True)  # whoever has it mapped still reads it
    return folder


def _last_used(path: Path) -> float:
    return path.stat().st_mtime if path.exists() else 0.0
