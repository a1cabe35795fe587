"""The queries that are nodes of the graph: training queries, generated queries, or both."""

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
    """The nodes: first the training queries, in their table's order, then generated queries with their sources.

    The source of a generated query is the passage that it was generated from.
    """

    training: int
    sources: Rows  # (n - training,) passage rows

    def __len__(self) -> int:
        return self.training + len(self.sources)

    def masked(self, queries: Rows, relevant: Rows) -> Rows:
        """The nodes that must be masked while some training queries train.

        These are the queries themselves, and all queries that were generated from a passage that is relevant for one of
        them. The generator was trained on that very pair and may repeat the training query; no such shortcut exists at
        test time, since the generator has seen no test query.

        Args:
            queries: rows of the training queries.
            relevant: passages that are relevant for them.
        """
        own = queries[queries < self.training]
        return np.concatenate([own, self.training + np.flatnonzero(np.isin(self.sources, relevant))])

    def labelled_pairs(self, pairs: pl.DataFrame) -> pl.DataFrame:
        """Nodes with their relevant passages, columns query, passage: generated queries with their sources, too.

        Args:
            pairs: judged-relevant pairs of the training queries, columns query, passage.
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
        training: table of the training queries; None: they are not nodes.
        generated: table of generated queries, in the passages' order; None: none are nodes.
        views: generated queries per passage.
        chosen: rows of the generated queries that become nodes, ascending.
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
    """Read what `write_nodes` wrote."""
    sources = open_table(folder / MADE_FROM, SOURCES).read().column("passage").to_numpy()
    return Nodes(training=count_rows(folder / NODES) - len(sources), sources=sources)


def draw(count: int, size: int | None, seed: int) -> Rows:
    """`size` of `count` rows at random, ascending; all rows if `size` is None or at least `count`."""
    if size is None or size >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, size=size, replace=False))


def _take(path: Path, rows: Rows) -> Iterator[pa.RecordBatch]:
    """Some rows of a queries table, given in ascending order, batch by batch."""
    first = 0
    for batch in open_table(path, QUERIES).iter_batches():
        within = rows[np.searchsorted(rows, first) : np.searchsorted(rows, first + len(batch))] - first
        yield batch.take(pa.array(within))
        first += len(batch)
