"""The tables that stages exchange: their schemas, and the check that a file has the expected schema."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from gnn_encoder.base import distributed
from gnn_encoder.base.errors import UserError, not_built
from gnn_encoder.base.matrix import Rows, Scores, resume_windows

SPLITS = ("train", "dev", "test")
UNLABELLED = "unlabelled"  # queries without labels, or with hidden ones: for PAIR's pseudo-labels, and as nodes

PASSAGES = pa.schema([("pid", pa.string()), ("title", pa.string()), ("text", pa.string())])
QUERIES = pa.schema([("qid", pa.string()), ("text", pa.string()), ("answers", pa.list_(pa.string()))])
QRELS = pa.schema([("qid", pa.string()), ("pid", pa.string()), ("grade", pa.int32())])

# How often a labelled pair of the training queries was logged; empty where the source does not count.
COUNTS = pa.schema([("qid", pa.string()), ("pid", pa.string()), ("count", pa.int64())])

# Row numbers: of each passage that has the title and text of an earlier one, and of the first of these. Ascending.
COPIES = pa.schema([("passage", pa.int32()), ("first", pa.int32())])

# Row numbers of queries and of the passages that they are themselves. Sorted by both.
OWN = pa.schema([("query", pa.int32()), ("passage", pa.int32())])

# `query` and `passage` are row numbers in their tables. Sorted by query, then by rank (0 is the best).
CANDIDATES = pa.schema([("query", pa.int32()), ("passage", pa.int32()), ("rank", pa.int16()), ("score", pa.float32())])

# What a contrastive model trains on: one row for each training query that has a positive. Negatives are null where M_ce
# has not scored the query's candidates.
EXAMPLES = pa.schema([("query", pa.int32()), ("positives", pa.list_(pa.int32())), ("negatives", pa.list_(pa.int32()))])

# The sampled dev queries with the passages that they rank while M_ce trains; `query` and `passage` are row numbers.
DEV_CANDIDATES = pa.schema([("query", pa.int32()), ("passage", pa.int32()), ("relevant", pa.bool_())])

# How a trained GNN weighs the queries of a passage (`attention`: Eq. 4, mean over heads; query -1: the passage itself)
# and how far the passage's gate opens (`gate`: Eq. 9, mean over columns; the same in all rows of a passage).
ATTENTION = pa.schema(
    [("query", pa.int32()), ("passage", pa.int32()), ("attention", pa.float32()), ("gate", pa.float32())]
)


def with_title(title: str, text: str, separator: str = " ") -> str:
    """A passage as one text: title, separator, text; or the text alone where there is no title."""
    return f"{title}{separator}{text}" if title else text


def feature_schema(dimension: int, *ends: str) -> pa.Schema:
    """M_ce's embeddings of pairs, float16: of edges (`ends`: query, passage), or of a node (row) with itself (node)."""
    return pa.schema([*((name, pa.int32()) for name in ends), ("feature", pa.list_(pa.float16(), dimension))])


def open_table(path: Path, schema: pa.Schema) -> pq.ParquetFile:
    """Open a Parquet file for streaming, after checking its columns."""
    table = open_parquet(path)
    found = table.schema_arrow.remove_metadata()
    if not found.equals(schema):
        columns, expected = (", ".join(f"{field.name} {field.type}" for field in one) for one in (found, schema))
        raise UserError(f"{path}: columns are {columns}, expected {expected}; make the file again")
    return table


def read_table(path: Path, schema: pa.Schema) -> pl.DataFrame:
    """A whole table, after checking its columns."""
    table = open_table(path, schema)
    with undamaged(path):
        return pl.DataFrame(table.read())


def open_parquet(path: Path) -> pq.ParquetFile:
    """Open a Parquet file of any columns."""
    if not path.is_file():
        raise not_built(path)
    with undamaged(path):
        return pq.ParquetFile(path, pre_buffer=False)  # pre-buffered columns stay in memory to the end


@contextmanager
def undamaged(path: Path) -> Iterator[None]:
    """A block in which an error of Arrow's about the content of a Parquet file becomes a UserError."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if getattr(error, "errno", None) is not None:  # the system does not open it
            raise
        raise UserError(
            f"{path}: not a readable Parquet file ({error}); make it again, by its stage or tool"
        ) from error


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


def resume_tables(
    folder: Path, schema: pa.Schema, rows: int, window: int, make: Callable[[int, Rows], pa.Table], **bar: str
) -> list[Path]:
    """Make a table in parts, as `resume_windows` does; `make` gets a window's number and its rows."""

    def tables(numbers: Iterator[int]) -> Iterator[tuple[int, pa.Table]]:
        return ((one, make(one, np.arange(one * window, min(rows, (one + 1) * window)))) for one in numbers)

    def write(path: Path, number: int, table: pa.Table) -> None:
        write_part(path, schema, [table])

    return resume_windows(folder, "part-{:06d}.parquet", rows, window, tables, write, **bar)


def batched(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Lists of a row group's size, the last one shorter."""
    iterator = iter(rows)
    while batch := list(islice(iterator, ROW_GROUP)):
        yield batch


def count_rows(path: Path) -> int:
    """Rows of a Parquet file, from its footer."""
    return int(open_parquet(path).metadata.num_rows)


def read_column(path: Path, name: str) -> pl.Series:
    """One column of a Parquet file."""
    table = open_parquet(path)
    with undamaged(path):
        return pl.DataFrame(table.read([name]))[name]


def iterate_texts(path: Path, schema: pa.Schema, columns: list[str]) -> Iterator[dict[str, list[str]]]:
    """Stream string columns of a table as lists."""
    for batch in open_table(path, schema).iter_batches(batch_size=ROW_GROUP, columns=columns):
        yield {name: batch.column(name).to_pylist() for name in columns}


def candidates_table(passages: Rows, scores: Scores, *, first: int = 0) -> pa.Table:
    """Top-k results, best first, passage -1 where fewer were found, as the candidates table.

    `first` is the row of the first query. *Shape:* (queries, k) both.
    """
    n_queries, k = passages.shape
    query = np.repeat(np.arange(first, first + n_queries, dtype=np.int32), k)
    rank = np.tile(np.arange(k, dtype=np.int16), n_queries)
    flat = passages.reshape(-1).astype(np.int32)
    found = flat >= 0
    columns = [query[found], flat[found], rank[found], scores.reshape(-1).astype(np.float32)[found]]
    return pa.table([pa.array(column) for column in columns], schema=CANDIDATES)
