"""Versions of an index: what `gnn-encoder add` and `delete` made of the one that the pipeline built, beside it.

    data/versions/SYSTEM/
        current.json    which version counts, and which built index it belongs to; the only file that is replaced
        lock            held by the command that writes a version
        000001/         a version, whole: `passages.parquet`, `embeddings/`, `index/`, and `rows.npy`, the row of each
                        passage in the built index, -1 of added ones. *Shape:* (passages,)
        queries-...     by the built index's fingerprint: what the graph's queries are to new passages (joining.py)

A command writes a folder of its own and then replaces `current.json`. A kill before that leaves a folder that nothing
names, which the next command removes. A version counts as long as the index that it belongs to is there: after the
pipeline has built another one, that one is current.
"""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import MANIFEST, read_json, write_json
from gnn_encoder.pipeline import project

CURRENT, LOCK, ROWS, QUERIES = "current.json", "lock", "rows.npy", "queries-"


@dataclass(frozen=True)
class Version:
    """An index with the matrix and the passages table that it is of; `rows` is None for the index that was built."""

    index: Path
    embeddings: Path
    passages: Path
    rows: Path | None = None

    @classmethod
    def at(cls, folder: Path) -> "Version":
        """The version that `add` or `delete` writes, or wrote, in a folder."""
        return cls(folder / "index", folder / "embeddings", folder / "passages.parquet", folder / ROWS)

    def checked(self) -> "Version":
        """The version itself."""
        # Only here: the command line would load slowly, and FAISS must not be where passages are explained.
        from gnn_encoder.base.matrix import read_manifest
        from gnn_encoder.base.tables import count_rows
        from gnn_encoder.search.faiss_index import check_ids

        check_ids(self.index, self.passages)
        matrix, passages = read_manifest(self.embeddings), count_rows(self.passages)
        if matrix.shape[0] != passages * matrix.views:
            raise UserError(
                f"{self.embeddings}: holds {matrix.shape[0]} vectors, {self.passages} has {passages} passages; "
                "make it again (`dvc repro`)"
            )
        return self


def folder_of(system: str) -> Path:
    """Where a system's versions are."""
    return project.DATA / "versions" / system


def current(system: str) -> Version:
    """The index that a search opens: the newest version of the built index, or the built index itself."""
    pointer = folder_of(system) / CURRENT  # not there where nothing was added or deleted
    built = Version(project.index(system), project.embeddings(system), project.PASSAGES)
    if not pointer.is_file() or not (built.index / MANIFEST).is_file():
        return built
    try:
        fields = read_json(pointer, dict[str, str])
        of, folder = fields["built"], pointer.parent / fields["version"]
    except (UserError, KeyError) as error:
        raise UserError(f"{pointer}: names no version; remove {pointer} to search the index that was built") from error
    if of != fingerprint_of(built.index):
        return built
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder, which {pointer} names; remove {pointer} to search the built index")
    return Version.at(folder)


def fingerprint_of(index: Path) -> str:
    """The fingerprint of an index."""
    return str(read_json(index / MANIFEST, dict[str, Any]).get("fingerprint"))


@contextmanager
def next_version(system: str) -> Iterator[Path]:
    """A new folder for a version, which counts once the context ends, and goes if that fails.

    What an earlier command left is removed, but for the version that counts: whoever has just opened that one, or is
    about to, finds it until the next command.
    """
    built, home = fingerprint_of(project.index(system)), folder_of(system)
    home.mkdir(parents=True, exist_ok=True)
    with (home / LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until this process ends in whatever way
        except BlockingIOError as error:
            raise UserError(f"{home}: another command is changing it; wait until it has ended") from error
        kept = {CURRENT, LOCK, f"{QUERIES}{built}", current(system).index.parent.name}
        names = {path.name for path in home.iterdir()}
        for name in names - kept:
            shutil.rmtree(home / name) if (home / name).is_dir() else (home / name).unlink()
        folder = home / f"{1 + max((int(name) for name in names if name.isdigit()), default=0):06d}"
        folder.mkdir()
        try:
            yield folder
            write_json(home / CURRENT, {"built": built, "version": folder.name})
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
