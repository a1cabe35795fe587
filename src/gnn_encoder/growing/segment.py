"""A segment: what one command added and deleted, as files that never change.

    passages.parquet   the passages, `GROWN`: added ones, and ones that newly logged queries inform anew
    vectors.npy        their vectors, which are searched. *Shape:* (passages, d) float32
    cached.npy         their embeddings by M_de, for systems that go on from these. *Shape:* (passages, d)
    edges.parquet      all edges of the passages to queries of the graph, `EDGES`, for systems that have a graph
    deleted.parquet    passages of earlier segments and of the built index that are found no longer, `DELETED`
    queries.parquet    logged queries, `LOGGED`, with pairs.parquet, the passages that they are labelled with, `PAIRS`
    m_de.npy, ...      the logged queries as nodes of the graph (nodes.py)
    index.faiss        after `compact --all`: an index of the built one's passages and this segment's, whose vector i
    rows.npy           is that of row `rows[i]`; ascending

Files for which there is nothing to hold are missing.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from gnn_encoder.core.records import PASSAGES, open_table
from gnn_encoder.core.storage.arrays import write_header

BASE = 0  # stands for the built index where a segment's number is asked for; those of segments begin with 1
NOWHERE = -1  # the same, of passages that are in no index any more but must not come back with a rebuilt one

# `added`: whether the text was added by the user; the others are the built index's, informed by logged queries.
GROWN = pa.schema([*PASSAGES, ("added", pa.bool_())])
# `row`: of the segment. `for_good`: deleted by the user, and not replaced.
DELETED = pa.schema([("pid", pa.string()), ("segment", pa.int32()), ("row", pa.int64()), ("for_good", pa.bool_())])
LOGGED = pa.schema([("text", pa.string())])
PAIRS = pa.schema([("query", pa.int32()), ("pid", pa.string())])  # `query`: a row of the segment's logged queries
# `query`: a node (nodes.py), -1 for the passage itself; `passage`: a row of the segment; `score`: M_de's, null for the
# passage itself; attention: Eq. 4, mean over heads; gate: Eq. 9, mean over columns, the same for all of a passage.
EDGES = pa.schema(
    [
        *(("query", pa.int32()), ("passage", pa.int32()), ("score", pa.float32()), ("labelled", pa.bool_())),
        *(("attention", pa.float32()), ("gate", pa.float32())),
    ]
)
M_DE, H_Q, H_Q_PRIME, REACH = "m_de.npy", "h_q.npy", "h_q_prime.npy", "reach.npy"
VECTORS, CACHED, INDEX, ROWS = "vectors.npy", "cached.npy", "index.faiss", "rows.npy"


class Entry(BaseModel):
    """A segment in the manifest: its number, how much it holds, and whether it holds an index of everything before."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    number: int
    passages: int = 0
    queries: int = 0
    deleted: int = 0
    indexed: bool = False


@dataclass(frozen=True)
class Segment:
    """A segment, open for reading; its arrays are mapped.

    Attributes:
        first_row: the row of its first passage among all passages of a state.
        first_query: the number of its first query among all logged queries.
    """

    folder: Path
    entry: Entry
    first_row: int
    first_query: int

    @property
    def passages(self) -> Path:
        """Table of its passages."""
        return self.folder / "passages.parquet"

    @property
    def edges(self) -> Path:
        """Table of its passages' edges."""
        return self.folder / "edges.parquet"

    @property
    def queries(self) -> Path:
        """Table of its logged queries."""
        return self.folder / "queries.parquet"

    @property
    def pairs(self) -> Path:
        """Table of the passages that its queries are labelled with."""
        return self.folder / "pairs.parquet"

    @property
    def deletions(self) -> Path:
        """Table of what it hides."""
        return self.folder / "deleted.parquet"

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """What is searched. *Shape:* (passages, d)."""
        return self.matrix(VECTORS)

    @cached_property
    def deleted(self) -> pl.DataFrame:
        """What it hides, as `DELETED`."""
        if not self.entry.deleted:
            return pl.DataFrame(schema=pl.Schema(DELETED))
        return pl.DataFrame(open_table(present(self.deletions), DELETED).read())

    def edges_of(self, rows: NDArray[np.int64]) -> pl.DataFrame:
        """The edges of some of its passages to queries, as `EDGES`. *Shape:* rows (b,)."""
        wanted = pl.Series(rows, dtype=pl.Int32).unique().implode()
        own = pl.col("passage").is_in(wanted) & (pl.col("query") >= 0)
        return pl.scan_parquet(self.edges).filter(own).collect(engine="streaming")

    def matrix(self, name: str) -> NDArray[Any]:
        """One of its arrays, mapped. *Shape:* (passages or queries, any)."""
        found: NDArray[Any] = np.load(self.folder / name, mmap_mode="r")
        return found


def present(path: Path) -> Path:
    """A file that must be there.

    Raises:
        FileNotFoundError: it is not; a command may have merged its segment since the manifest was read.
    """
    if not path.is_file():
        raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
    return path


@contextmanager
def matrix_writer(path: Path, shape: tuple[int, int], dtype: str) -> Iterator[BinaryIO]:
    """A `.npy` file that rows are appended to."""
    with path.open("wb") as file:
        write_header(file, np.dtype(dtype), shape)
        yield file


def append(file: BinaryIO, rows: NDArray[Any], dtype: str) -> None:
    """Write the next rows of a matrix."""
    file.write(np.ascontiguousarray(rows, dtype=dtype).data)
