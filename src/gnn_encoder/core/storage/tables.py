"""Parquet tables: streamed in, written in row groups, read as numpy columns."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gnn_encoder.core import distributed
from gnn_encoder.core.records import CANDIDATES, open_parquet, open_table

ROW_GROUP = 16_384  # rows
PICKED = 1_024  # the same, of a table of which a search picks rows: it reads a whole row group for each
Row = TypeVar("Row")


Batches = Iterable[pa.RecordBatch | pa.Table]


def write_table(path: Path, schema: pa.Schema, batches: Batches, row_group: int = ROW_GROUP) -> None:
    """Write `batches` as one Parquet file of `schema`, one at a time. Of several ranks the first one writes."""
    if distributed.is_first():
        write_part(path, schema, batches, row_group)


def write_part(path: Path, schema: pa.Schema, batches: Batches, row_group: int = ROW_GROUP) -> None:
    """Write `batches` as a Parquet file of this rank's own; `write_table` writes one file for all ranks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
            writer.write_table(table.cast(schema), row_group_size=row_group)


def batched(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Lists of a row group's size, the last one shorter."""
    iterator = iter(rows)
    while batch := list(islice(iterator, ROW_GROUP)):
        yield batch


def count_rows(path: Path) -> int:
    """Rows of a Parquet file, from its footer."""
    return int(open_parquet(path).metadata.num_rows)


def read_column(path: Path, name: str) -> pa.ChunkedArray:
    """One column of a Parquet file, in Arrow's memory (without a Python object for each row)."""
    return pq.read_table(path, columns=[name]).column(name)


def iterate_texts(path: Path, schema: pa.Schema, columns: list[str]) -> Iterator[dict[str, list[str]]]:
    """Stream string columns of a table as lists."""
    for batch in open_table(path, schema).iter_batches(batch_size=ROW_GROUP, columns=columns):
        yield {name: batch.column(name).to_pylist() for name in columns}


def candidates_table(
    passages: NDArray[np.integer[Any]], scores: NDArray[np.floating[Any]], *, first: int = 0
) -> pa.Table:
    """Top-k results as the candidates table.

    Args:
        passages: passage rows, best first. *Shape:* (queries, k). -1 where fewer than k were found.
        scores: *Shape:* (queries, k).
        first: row of the first query.
    """
    n_queries, k = passages.shape
    query = np.repeat(np.arange(first, first + n_queries, dtype=np.int32), k)
    rank = np.tile(np.arange(k, dtype=np.int16), n_queries)
    flat = passages.reshape(-1).astype(np.int32)
    found = flat >= 0
    columns = [query[found], flat[found], rank[found], scores.reshape(-1).astype(np.float32)[found]]
    return pa.table([pa.array(column) for column in columns], schema=CANDIDATES)


def read_candidates(path: Path) -> dict[str, NDArray[Any]]:
    """The candidates (or edges) table as numpy columns `query`, `passage`, `rank`, `score`."""
    table = open_table(path, CANDIDATES).read()
    return {name: table.column(name).to_numpy() for name in CANDIDATES.names}


def iterate_candidates(path: Path) -> Iterator[dict[str, NDArray[Any]]]:
    """As `read_candidates`, some rows at a time."""
    for batch in open_table(path, CANDIDATES).iter_batches(batch_size=64 * ROW_GROUP):
        yield {name: batch.column(name).to_numpy() for name in CANDIDATES.names}
