"""The scratch place, where work waits that is not finished and where small caches lie. Git and DVC ignore it."""

import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex

from gnn_encoder.core import distributed
from gnn_encoder.core.storage.atomic import publish
from gnn_encoder.core.storage.fingerprint import MANIFEST, is_damaged, seal

SCRATCH = Path(".scratch")
WORK = ".work"  # subfolder of an unfinished artifact, for files that only a resumed call needs; deleted at the end
DAY = 24 * 60 * 60  # seconds
log = logging.getLogger(__name__)


def cached(place: Path, name: str, key: str, make: Callable[[Path], None], *, keep: int) -> Path:
    """A cache for some `key`: place/name-key. It is made where it is missing or damaged, which the first rank sees to.

    Args:
        key: a fingerprint of all that decides the content.
        make: fills an empty folder.
        keep: caches that a name may have: those used last stay.
    """
    folder = place / f"{name}-{key}"
    if distributed.is_first():
        _remove_former(folder, name, keep)
        if not (folder / MANIFEST).is_file() or is_damaged(folder):
            _fill(folder, make)
        os.utime(folder)
    distributed.barrier()
    return folder


def _fill(folder: Path, make: Callable[[Path], None]) -> None:
    """Make a cache beside its place, under its name with a suffix, and move it there whole."""
    if folder.exists():
        log.warning("%s: damaged; it is made again", folder)
        shutil.rmtree(folder)
    beside = folder.with_name(f"{folder.name}.{token_hex(4)}")  # processes of several containers have equal numbers
    beside.mkdir(parents=True)
    try:
        make(beside)
        seal(beside)
        if not folder.exists():
            publish(beside, folder)
    except OSError:
        if not folder.exists():  # else another process has just made the same
            raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _remove_former(folder: Path, name: str, keep: int) -> None:
    """Remove a name's other caches but those used last, and what kills left half-written, after a day."""
    others = [path for path in folder.parent.glob(f"{name}-*") if path != folder]
    whole = sorted((path for path in others if not path.suffix), key=_last_used, reverse=True)
    half_written = [path for path in others if path.suffix and _last_used(path) < time.time() - DAY]
    for old in (*whole[keep - 1 :], *half_written):
        shutil.rmtree(old, ignore_errors=True)  # whoever has it mapped still reads it


def _last_used(path: Path) -> float:
    return path.stat().st_mtime if path.exists() else 0.0
