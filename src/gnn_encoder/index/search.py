"""Searching passages: an index on disk, mapped rather than read, or a matrix of embeddings directly."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gnn_encoder.base.errors import UserError, not_built
from gnn_encoder.base.files import MANIFEST, read_json
from gnn_encoder.base.matrix import Rows, Scores
from gnn_encoder.base.tables import PASSAGES, open_table
from gnn_encoder.index import build, exact
from gnn_encoder.index.views import search_views

GROUPS_KEPT = 128  # row groups of a table that stay in memory between queries


@dataclass(frozen=True, kw_only=True)
class PassageIndex:
    """An index on disk, open for searching.

    *Shape:* `passages` times `views` rows of `dimension` columns.
    """

    folder: Path
    factory: str
    system: str
    passages: int
    views: int
    dimension: int
    index: Any  # faiss.Index

    @classmethod
    def open(cls, folder: Path) -> "PassageIndex":
        """Map the index of `folder` and check it against its manifest."""
        fields = _read_manifest(folder)
        index = _map_index(folder / build.INDEX)
        if (index.ntotal, index.d) != (fields["passages"] * fields["views"], fields["dimension"]):
            raise UserError(
                f"{folder / build.INDEX}: {index.ntotal} vectors of dimension {index.d}, but {folder / MANIFEST} says "
                f"{fields['passages']} passages times {fields['views']} of {fields['dimension']}; build the index again"
            )
        settings = {name: value for name, value in fields.items() if name not in ("fingerprint", "content")}
        return cls(folder=folder, index=index, **settings)

    @property
    def bytes(self) -> int:
        """Size of the index on the disk."""
        return (self.folder / build.INDEX).stat().st_size

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[Rows, Scores]:
        """Find k passages a query, best first: rows of the passages table (-1 where an index found fewer) and scores.

        *Shape:* queries (n, dimension) -> (n, k) each.
        """
        exact.check_k(k, self.passages, "k")
        return search_views(self.index, self.views, exact.check_queries(queries, self.dimension), k)


def check_ids(folder: Path, passages: Path) -> None:
    """Compare the ids of an index with those of the table of passages."""
    sides = open_table(folder / build.PIDS, build.PID_TABLE), open_table(passages, PASSAGES)
    ours, theirs = (table.read(columns=["pid"]).column("pid") for table in sides)
    if not ours.equals(theirs):
        raise UserError(f"{folder}: made of other passages than now; build it again (`dvc repro`)")


class TableRows:
    """Reads single rows of a Parquet table; only the row groups that they are in are read."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._file = open_table(path, schema)
        metadata = self._file.metadata
        self._ends = np.cumsum([metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)])
        self._group = lru_cache(maxsize=GROUPS_KEPT)(self._file.read_row_group)

    def __len__(self) -> int:
        return int(self._file.metadata.num_rows)

    def take(self, rows: Rows) -> list[dict[str, Any]]:
        """Rows in the order asked for, by column name. *Shape:* rows (n,)."""
        found = []
        for row in rows.tolist():
            group = int(np.searchsorted(self._ends, row, side="right"))
            first = int(self._ends[group - 1]) if group else 0
            found += self._group(group).slice(row - first, 1).to_pylist()
        return found


def _read_manifest(folder: Path) -> dict[str, Any]:
    for name in (MANIFEST, build.INDEX, build.PIDS):
        if not (folder / name).is_file():
            raise not_built(folder / name)
    fields = read_json(folder / MANIFEST, dict[str, Any])
    expected = {"fingerprint", "factory", "passages", "views", "dimension", "system"}
    if set(fields) - {"content"} != expected:
        raise UserError(f"{folder / MANIFEST}: must hold {', '.join(sorted(expected))}; build the index again")
    return fields


def _map_index(path: Path) -> Any:
    """Map the file where FAISS can (flat and inverted files), so that opening costs no reading."""
    try:
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        raise UserError(f"{path}: not a readable FAISS index (truncated?); build the index again") from error
