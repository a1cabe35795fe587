"""Whether files have changed on disk, and whether whoever writes them has finished."""

from collections.abc import Iterable
from pathlib import Path

Signature = tuple[tuple[int, int, int] | None, ...]  # of each file: time of change, bytes, inode; None: no such file


def signature(paths: Iterable[Path]) -> Signature:
    """What tells a new version of some files from the old one."""
    return tuple(_state(path) for path in paths)


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:  # not there, or its folder is being moved
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class Change:
    """Tells once when files are new and at rest: two looks in a row must find the same new state."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths
        self._taken = self._last = signature(paths)

    def settled(self) -> bool:
        """Whether the files differ from those that were taken last, and have not changed since the look before."""
        found = signature(self.paths)
        at_rest, self._last = found == self._last, found
        return at_rest and found != self._taken

    def take(self) -> None:
        """Remember the state of the last look as the one in use, or as one that is no use."""
        self._taken = self._last
