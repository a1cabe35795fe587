"""The queries that are nodes of the graph: training queries, queries without labels, generated queries."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from gnn_encoder.base.matrix import Rows
from gnn_encoder.base.tables import QUERIES, SOURCES, count_rows, open_table, write_table

NODES, MADE_FROM = "queries.parquet", "sources.parquet"


@dataclass(frozen=True)
class Nodes:
    """The nodes: first the training queries, in their table's order, then unlabelled queries, then generated ones.

    The source of a generated query is the passage that it was generated from. An unlabelled query has none: it informs
    the passages that it retrieves, no training step asks it, and so none has to mask it.
    """

    training: int
    sources: Rows  # (n - training,) passage rows, -1 where the query was not generated

    def __len__(self) -> int:
        return self.training + len(self.sources)

    @property
    def asked(self) -> int:
        """The nodes that people asked: those before the generated ones."""
        return self.training + int((self.sources < 0).sum())

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

        Unlabelled queries have none, even where their labels are only hidden.

        Args:
            pairs: judged-relevant pairs of the training queries, columns query, passage.
        """
        generated = pl.DataFrame(
            {"query": self.training + np.arange(len(self.sources)), "passage": self.sources},
            schema={"query": pl.Int32, "passage": pl.Int32},
        )
        return pl.concat([pairs.filter(pl.col("query") < self.training), generated.filter(pl.col("passage") >= 0)])


NO_NODES = Nodes(training=0, sources=np.empty(0, dtype=np.int32))


@dataclass(frozen=True)
class Chosen:
    """Some rows of a queries table, ascending, which become nodes."""

    table: Path
    rows: Rows


def write_nodes(
    folder: Path, *, training: Path | None, unlabelled: Chosen, generated: Chosen | None, views: int
) -> None:
    """Write the nodes' texts and sources.

    Args:
        training: table of the training queries; None: they are not nodes.
        unlabelled: of the table of queries without labels.
        generated: of the table of generated queries, which is in the passages' order; None: none are nodes.
        views: generated queries per passage.
    """
    others = [unlabelled, generated] if generated is not None else [unlabelled]

    def queries() -> Iterator[pa.RecordBatch]:
        if training is not None:
            yield from open_table(training, QUERIES).iter_batches()
        for some in others:
            yield from _take(some)

    write_table(folder / NODES, QUERIES, queries())
    made_from = generated.rows // views if generated is not None else unlabelled.rows[:0]
    sources = np.concatenate([np.full(len(unlabelled.rows), -1), made_from])
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


def _take(some: Chosen) -> Iterator[pa.RecordBatch]:
    """The chosen rows, batch by batch."""
    rows, first = some.rows, 0
    for batch in open_table(some.table, QUERIES).iter_batches():
        within = rows[np.searchsorted(rows, first) : np.searchsorted(rows, first + len(batch))] - first
        yield batch.take(pa.array(within))
        first += len(batch)
