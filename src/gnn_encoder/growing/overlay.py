"""What was added to a built index and deleted from it: `data/grown/SYSTEM`, beside the pipeline's own artifacts.

    manifest.json         names the index that all this belongs to, and the segments that count
    lock                  held by the command that is changing something
    000001, 000002, ...   segments (segment.py): each holds what one command did, and never changes
    nodes-FINGERPRINT     what adding needs to know of the built graph's queries (nodes.py)

A command writes a new segment and then replaces the manifest. A kill before that leaves the old state and files that no
manifest names, which the next command removes.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.records import PASSAGES
from gnn_encoder.core.storage.arrays import block_size, gather, iterate_blocks, open_matrix
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.core.storage.fingerprint import MANIFEST
from gnn_encoder.growing.place import folder_of, manifest_of
from gnn_encoder.growing.segment import BASE, CACHED, DELETED, GROWN, NOWHERE, Entry, Segment
from gnn_encoder.pipeline import project

Rows = NDArray[np.int64]
LOCK = "lock"
NODES = "nodes-"


class Manifest(BaseModel):
    """The state of what was added and deleted.

    Attributes:
        index: fingerprint of the built index that this belongs to.
        passages: passages of that index.
        dimension: columns of a vector.
        following: number of the next segment; no number is used twice.
        segments: the segments that count, oldest first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: Literal[1] = 1
    system: str
    index: str
    passages: int
    dimension: int
    following: int = 1
    segments: tuple[Entry, ...] = ()

    def with_segment(self, entry: Entry) -> "Manifest":
        """The state with one more segment."""
        return self.model_copy(update={"following": entry.number + 1, "segments": (*self.segments, entry)})


@dataclass(frozen=True)
class Overlay:
    """A state, open for reading.

    Rows number all passages: first those of the built index, then those of each segment, deleted ones among them.
    """

    manifest: Manifest

    @property
    def folder(self) -> Path:
        """Where it is."""
        return folder_of(self.manifest.system)

    @cached_property
    def segments(self) -> list[Segment]:
        """The segments that count, oldest first."""
        found, row, query = [], self.manifest.passages, 0
        for entry in self.manifest.segments:
            found.append(Segment(self.path(entry.number), entry, row, query))
            row, query = row + entry.passages, query + entry.queries
        return found

    @property
    def rows(self) -> int:
        """All passages, deleted ones among them."""
        return self.manifest.passages + sum(entry.passages for entry in self.manifest.segments)

    @property
    def queries(self) -> int:
        """Logged queries."""
        return sum(entry.queries for entry in self.manifest.segments)

    @cached_property
    def dead(self) -> Rows:
        """The rows that must not be found, ascending: passages that were deleted, or that a later row replaces."""
        first = {segment.entry.number: segment.first_row for segment in self.segments} | {BASE: 0}
        dead = [np.empty(0, dtype=np.int64)]
        for segment in self.segments:
            for (number,), rows in segment.deleted.group_by("segment"):
                if number in first:
                    dead.append(first[int(str(number))] + rows["row"].to_numpy())
        return np.unique(np.concatenate(dead))

    def path(self, number: int) -> Path:
        """Folder of a segment."""
        return self.folder / f"{number:06d}"

    def is_live(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows may be found. *Shape:* (n,)."""
        return ~np.isin(rows, self.dead)

    def find(self, pids: pl.Series) -> pl.DataFrame:
        """The live passages among some ids: columns `pid`, `row`. The column of all ids is read once, in parts."""
        wanted = pids.unique().implode()
        tables = [
            (project.PASSAGES, 0),
            *((one.passages, one.first_row) for one in self.segments if one.entry.passages),
        ]
        found = [
            pl.scan_parquet(path)
            .select("pid")
            .with_row_index("row")
            .filter(pl.col("pid").is_in(wanted))
            .select("pid", row=pl.col("row").cast(pl.Int64) + first)
            .collect(engine="streaming")
            for path, first in tables
        ]
        every = pl.concat(found)
        return every.filter(pl.Series(self.is_live(every["row"].to_numpy()), dtype=pl.Boolean)).sort("row")

    def by_segment(self, rows: Rows) -> list[tuple[Segment | None, Rows, Rows]]:
        """Rows by the segment that holds them, None for the built index: their rows in it, their places in `rows`.

        *Shape:* rows (n,), -1 where there is none.
        """
        ends = [(None, 0, self.manifest.passages)]
        held = [(one, one.first_row, one.first_row + one.entry.passages) for one in self.segments]
        found = []
        for segment, first, end in [*ends, *held]:
            places = np.flatnonzero((rows >= first) & (rows < end))
            if len(places):
                found.append((segment, rows[places] - first, places))
        return found

    def texts(self, rows: Rows) -> pl.DataFrame:
        """Passages in the order asked for, as `GROWN`. *Shape:* rows (n,)."""
        from gnn_encoder.index.search import TableRows  # which FAISS comes with, and explanations do without

        found: list[dict[str, Any]] = [{}] * len(rows)
        for segment, within, places in self.by_segment(rows):
            table = TableRows(*((project.PASSAGES, PASSAGES) if segment is None else (segment.passages, GROWN)))
            for place, row in zip(places.tolist(), table.take(within), strict=True):
                found[place] = {"added": False, **row}
        return pl.DataFrame(found, pl.Schema(GROWN))

    def cached(self, base: Path) -> "Cached":
        """M_de's embeddings of all passages; `base`: the folder of those of the built index."""
        return Cached(self, open_matrix(base))

    def blocks(self, base: Path, name: str) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """A matrix of all passages, deleted ones among them, block by block, each with the row of its first passage.

        Args:
            base: the folder of the built passages' matrix.
            name: of the segments' array.
        """
        yield from iterate_blocks(base)
        for segment in self.segments:
            if segment.entry.passages:
                matrix = segment.matrix(name)
                size = block_size(matrix.shape[1])
                for first in range(0, len(matrix), size):
                    yield segment.first_row + first, np.asarray(matrix[first : first + size], np.float32)

    def deletions(self, found: pl.DataFrame, *, for_good: bool) -> pl.DataFrame:
        """The rows of `DELETED` that hide some passages.

        Args:
            found: columns pid, row.
            for_good: whether a rebuilt index must not have them either; not so where a new version replaces them.
        """
        numbers, rows = (np.full(len(found), NOWHERE) for _ in range(2))
        for segment, within, places in self.by_segment(found["row"].to_numpy()):
            numbers[places], rows[places] = BASE if segment is None else segment.entry.number, within
        columns = {"pid": found["pid"], "segment": numbers, "row": rows, "for_good": np.full(len(found), for_good)}
        return pl.DataFrame(columns, pl.Schema(DELETED))


@dataclass(frozen=True)
class Cached:
    """M_de's embeddings of all passages of a state. *Shape:* base (passages of the built index, d)."""

    overlay: Overlay
    base: NDArray[Any]

    def take(self, rows: Rows) -> NDArray[Any]:
        """Some of them. *Shape:* (n,) -> (n, d)."""
        found = np.zeros((len(rows), self.base.shape[1]), dtype=self.base.dtype)
        for segment, within, places in self.overlay.by_segment(rows):
            found[places] = gather(self.base if segment is None else segment.matrix(CACHED), within)
        return found


def read_manifest(system: str) -> Manifest | None:
    """The state on disk; None where nothing was ever added or deleted.

    Raises:
        UserError: the file is no such manifest.
    """
    path = manifest_of(system)
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        told = f"{'.'.join(map(str, error.errors()[0]['loc']))}: {error.errors()[0]['msg']}"
        raise UserError(
            f"{path}: not the manifest of a grown index ({told}); remove {path.parent} and add the passages again"
        ) from error


def current_index(system: str) -> Manifest:
    """The empty state over the index that is built now.

    Raises:
        UserError: there is no such index.
    """
    fields = _built(system)
    return Manifest(
        system=system, index=fields["fingerprint"], passages=fields["passages"], dimension=fields["dimension"]
    )


def built_factory(system: str) -> str:
    """The FAISS factory string of the index that is built now."""
    return str(_built(system)["factory"])


def _built(system: str) -> dict[str, Any]:
    path = project.index(system) / MANIFEST
    if not path.is_file():
        raise UserError(f"{path}: no such file; make it first (`dvc repro build_index@{system}`)")
    fields: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return fields


def read_overlay(system: str, fingerprint: str) -> Overlay | None:
    """What was added to the index with this fingerprint and deleted from it; None where nothing was.

    Raises:
        UserError: it belongs to another index, so that it can neither be used nor be left out in silence.
    """
    manifest = read_manifest(system)
    if manifest is None or (manifest.index != fingerprint and not manifest.segments):
        return None
    if manifest.index != fingerprint:
        raise UserError(
            f"{folder_of(system)}: what was added and deleted belongs to an older index than {project.index(system)}; "
            f"`gnn-encoder add --again --system {system}` brings it onto this one, and removing the folder drops it"
        )
    return Overlay(manifest)


@contextmanager
def changing(system: str) -> Iterator[None]:
    """Let nobody else change a system's additions meanwhile, and remove what a killed command left.

    Raises:
        UserError: another command is changing it.
    """
    folder = folder_of(system)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            raise UserError(
                f"{folder}: process {lock.read().strip() or '?'} is changing it; wait until it has ended"
            ) from error
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        _remove_leftovers(system)
        yield


def commit(manifest: Manifest) -> None:
    """Make a state the one that counts, and remove the segments that it no longer names."""
    write_json(manifest_of(manifest.system), manifest.model_dump(mode="json"))
    _remove_leftovers(manifest.system)


def _remove_leftovers(system: str) -> None:
    """Remove what no manifest names: a killed command's work, or segments that were merged.

    A search that has them open goes on with them: the system keeps files until they are closed.
    """
    manifest = read_manifest(system)
    numbers = {f"{entry.number:06d}" for entry in manifest.segments} if manifest else set()
    kept = numbers | {MANIFEST, LOCK} | ({f"{NODES}{manifest.index}"} if manifest else set())
    for path in folder_of(system).iterdir():
        if path.is_dir() and path.name not in kept:
            shutil.rmtree(path)
        elif path.name not in kept:
            path.unlink()
