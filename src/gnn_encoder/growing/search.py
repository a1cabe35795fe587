"""Searching a built index together with what was added to it and deleted from it. No torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.judgements import contains
from gnn_encoder.core.rows import Rows, Scores
from gnn_encoder.core.storage.arrays import block_size
from gnn_encoder.growing.filtered import FilteredIndex
from gnn_encoder.growing.overlay import Overlay, current_index, read_manifest, read_overlay
from gnn_encoder.growing.place import manifest_of
from gnn_encoder.growing.segment import GROWN, INDEX, ROWS, Segment, present
from gnn_encoder.index.exact import block_top_k, check_queries
from gnn_encoder.index.search import PassageIndex, TableRows
from gnn_encoder.index.views import MISSING, by_score_then_row


class SegmentTable(TableRows):
    """The passages of a segment; the file stays open, whatever becomes of the segment."""

    def __init__(self, path: Path) -> None:
        super().__init__(present(path), GROWN)

    def row(self, pid: str) -> int | None:
        """The row of a passage, None where the segment has no such one. Reads the column of ids, in parts."""
        first = 0
        for batch in self._file.iter_batches(columns=["pid"]):
            place = pc.index(batch.column(0), pid).as_py()
            if place >= 0:
                return first + int(place)
            first += len(batch)
        return None


@dataclass(frozen=True, kw_only=True)
class GrownIndex:
    """A built index, or the one that `compact --all` made, and the segments that were added since.

    Attributes:
        folder, factory: those of the built index.
        passages: those that can be found.
        main: the FAISS index, without the rows that were deleted.
        main_rows: the row of each vector of `main` among all passages; None: vector i is row i.
        added: first row and vectors of each segment that `main` does not hold. *Shape:* vectors (any, d).
        texts: first row and passages of each segment.
    """

    folder: Path
    factory: str
    overlay: Overlay
    passages: int
    dimension: int
    main: FilteredIndex
    main_rows: NDArray[np.int64] | None
    added: list[tuple[int, NDArray[np.float32]]]
    texts: list[tuple[int, SegmentTable]]

    @classmethod
    def open(cls, base: PassageIndex) -> "GrownIndex | None":
        """What grew on a built index; None where nothing did.

        Raises:
            UserError: it grew on another build of the index, or a file is missing.
        """
        system = base.folder.name
        while read_manifest(system) is not None:
            overlay = read_overlay(system, current_index(system).index)
            if overlay is None:
                return None
            try:
                return cls._open(base, overlay)
            except OSError as error:  # a command replaced the segments after the manifest was read
                if read_manifest(system) == overlay.manifest:
                    raise UserError(
                        f"{error.filename}: no such file, which {manifest_of(system)} names; "
                        f"remove {overlay.folder} and add the passages again"
                    ) from error
        return None

    @classmethod
    def _open(cls, base: PassageIndex, overlay: Overlay) -> "GrownIndex":
        segments = [segment for segment in overlay.segments if segment.entry.passages]
        whole = next((segment for segment in overlay.segments if segment.entry.indexed), None)
        index, rows = (base.index, None) if whole is None else _open_whole(whole)
        hidden = overlay.dead[overlay.dead < base.passages] if rows is None else _places(rows, overlay.dead)
        return cls(
            folder=base.folder,
            factory=base.factory,
            overlay=overlay,
            passages=overlay.rows - len(overlay.dead),
            dimension=base.dimension,
            main=FilteredIndex(index, hidden),
            main_rows=rows,
            added=[(segment.first_row, segment.vectors) for segment in segments if not segment.entry.indexed],
            texts=[(segment.first_row, SegmentTable(segment.passages)) for segment in segments],
        )

    @property
    def views(self) -> int:
        """Vectors a passage: systems with several cannot grow."""
        return 1

    def row(self, pid: str, built: int | None) -> int | None:
        """The row of a passage that can be found; None: there is none with this id.

        Args:
            built: its row in the built index; None: it is not there.
        """
        for first, table in reversed(self.texts):
            place = table.row(pid)
            if place is not None and self.overlay.is_live(np.array([first + place]))[0]:
                return first + place
        return built if built is not None and self.overlay.is_live(np.array([built]))[0] else None

    def vector(self, row: int) -> NDArray[np.float32]:
        """The vector of a row. *Shape:* (d,).

        Raises:
            RuntimeError: the index is of a type that does not give its vectors back.
        """
        for first, vectors in self.added:
            if first <= row < first + len(vectors):
                return np.asarray(vectors[row - first])
        place = row if self.main_rows is None else int(np.searchsorted(self.main_rows, row))
        return np.asarray(self.main.index.reconstruct(place), dtype=np.float32)

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[Rows, Scores]:
        """The k best passages of each query, best first, as rows among all passages; -1 where there are fewer.

        The main index finds as its type does; added passages are all compared, exactly.

        *Shape:* (n, d) -> (n, k) each.
        """
        queries = check_queries(queries, self.dimension)
        rows, scores = self.main.search(queries, k)
        if self.main_rows is not None:
            rows = np.where(rows < 0, -1, self.main_rows[rows])
        for first, vectors in self.added:
            size = block_size(self.dimension)
            for start in range(0, len(vectors), size):
                found = self._search_added(vectors[start : start + size], first + start, queries, k)
                joined = np.concatenate([rows, found[0]], axis=1), np.concatenate([scores, found[1]], axis=1)
                rows, scores = by_score_then_row(*joined)
                rows, scores = rows[:, :k], scores[:, :k]
        return rows, scores

    def _search_added(
        self, vectors: NDArray[np.float32], first: int, queries: NDArray[np.float32], k: int
    ) -> tuple[Rows, Scores]:
        """The best live ones of some vectors, the first of which is row `first`, and -1 for others among them.

        As many more are fetched as are dead. To leave these out beforehand, all vectors would have to be copied.

        *Shape:* (n, any) each.
        """
        low, high = np.searchsorted(self.overlay.dead, [first, first + len(vectors)])
        dead = self.overlay.dead[low:high]
        rows, scores = block_top_k(vectors, queries, min(len(vectors), k + len(dead)))
        rows += first
        hidden = contains(dead, rows)
        rows[hidden], scores[hidden] = -1, MISSING
        return rows, scores

    def tables(self, base: TableRows, columns: list[str]) -> "GrownTables":
        """Some columns of all passages, by row; `base`: the table of the built index's passages."""
        return GrownTables([(0, base), *self.texts], columns)


class GrownTables:
    """A table of the built index's passages, and those of the segments behind it."""

    def __init__(self, tables: Sequence[tuple[int, TableRows]], columns: list[str]) -> None:
        self._first = np.array([first for first, _ in tables])
        self._tables, self._columns = [table for _, table in tables], columns

    def take(self, rows: NDArray[np.int64]) -> list[dict[str, Any]]:
        """Rows in the order asked for, by column name. *Shape:* rows (n,)."""
        which = np.searchsorted(self._first, rows, side="right") - 1
        found: list[dict[str, Any]] = [{}] * len(rows)
        for table in np.unique(which).tolist():
            places = np.flatnonzero(which == table)
            taken = self._tables[table].take(rows[places] - self._first[table])
            for place, row in zip(places.tolist(), taken, strict=True):
                found[place] = {name: row[name] for name in self._columns}
        return found


def _open_whole(segment: Segment) -> tuple[Any, NDArray[np.int64]]:
    path = present(segment.folder / INDEX)
    return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC), segment.matrix(ROWS)


def _places(rows: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where those of the `wanted` numbers are in `rows` that it has. *Shape:* both ascending."""
    places = np.searchsorted(rows, wanted)
    return places[contains(rows, wanted)]
