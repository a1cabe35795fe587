"""The queries that are nodes of the graph: training queries, generated ones, or both."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from gnn_encoder.core.records import QUERIES, SOURCES, open_table
from gnn_encoder.core.storage.tables import count_rows, write_table

Rows = NDArray[np.integer[Any]]
NODES, MADE_FROM = "queries.parquet", "sources.parquet"


@dataclass(frozen=True)
class Nodes:
    """First the training queries, in their table's order, then the generated ones, each with its source passage."""

    training: int
    sources: Rows  # (n - training,) passage rows

    def __len__(self) -> int:
        return self.training + len(self.sources)

    def masked(self, queries: Rows, relevant: Rows) -> Rows:
        """Nodes that must be out of the graph while some training queries train.

        These are the queries themselves, and what was generated from a passage that is relevant for one of them: the
        generator was trained on that very pair and may repeat the query, whereas it has seen no test query.

        Args:
            queries: rows of the training queries.
            relevant: passages that are relevant for them.
        """
        own = queries[queries < self.training]
        return np.concatenate([own, self.training + np.flatnonzero(np.isin(self.sources, relevant))])

    def labelled_pairs(self, pairs: pl.DataFrame) -> pl.DataFrame:
        """Which nodes belong to which passages: judged-relevant pairs, and generated queries with their sources.

        Args:
            pairs: columns query, passage, of the training queries.
        """
        generated = pl.DataFrame(
            {"query": self.training + np.arange(len(self.sources)), "passage": self.sources},
            schema={"query": pl.Int32, "passage": pl.Int32},
        )
        return pl.concat([pairs.filter(pl.col("query") < self.training), generated])


NO_NODES = Nodes(training=0, sources=np.empty(0, dtype=np.int32))


def write_nodes(folder: Path, *, training: Path | None, generated: Path | None, views: int, chosen: Rows) -> None:
    """Write the nodes' texts and sources.

    Args:
        training: table of the training queries; None: they are no nodes.
        generated: table of generated queries, `views` a passage in the passages' order; None: there are none.
        chosen: which of the generated queries become nodes, ascending.
    """

    def queries() -> Iterator[pa.RecordBatch]:
        if training is not None:
            yield from open_table(training, QUERIES).iter_batches()
        if generated is not None:
            yield from _take(generated, chosen)

    write_table(folder / NODES, QUERIES, queries())
    sources = chosen // views if generated is not None else chosen[:0]
    write_table(folder / MADE_FROM, SOURCES, [pa.record_batch([pa.array(sources, pa.int32())], SOURCES)])


def read_nodes(folder: Path) -> Nodes:
    """Nodes that `write_nodes` wrote."""
    sources = open_table(folder / MADE_FROM, SOURCES).read().column("passage").to_numpy()
    return Nodes(training=count_rows(folder / NODES) - len(sources), sources=sources)


def draw(count: int, size: int | None, seed: int) -> Rows:
    """`size` of `count` rows at random, ascending; None, or more than there are: all."""
    if size is None or size >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, size=size, replace=False))


def _take(path: Path, rows: Rows) -> Iterator[pa.RecordBatch]:
    """Some rows of a table of queries, ascending, a batch at a time."""
    first = 0
    for batch in open_table(path, QUERIES).iter_batches():
        within = rows[np.searchsorted(rows, first) : np.searchsorted(rows, first + len(batch))] - first
        yield batch.take(pa.array(within))
        first += len(batch)
