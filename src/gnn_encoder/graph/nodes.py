"""The queries that are nodes of the graph: all training queries, then queries without labels."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from gnn_encoder.base.matrix import Rows
from gnn_encoder.base.tables import QUERIES, open_table, write_table

NODES = "queries.parquet"


def write_nodes(folder: Path, *, training: Path, unlabelled: Path, rows: Rows) -> None:
    """Write the nodes' texts: the training queries in their table's order, then some rows of those without labels.

    Args:
        rows: ascending.
    """

    def queries() -> Iterator[pa.RecordBatch]:
        yield from open_table(training, QUERIES).iter_batches()
        first = 0
        for batch in open_table(unlabelled, QUERIES).iter_batches():
            within = rows[np.searchsorted(rows, first) : np.searchsorted(rows, first + len(batch))] - first
            yield batch.take(pa.array(within))
            first += len(batch)

    write_table(folder / NODES, QUERIES, queries())


def draw(count: int, size: int | None, seed: int) -> Rows:
    """`size` of `count` rows at random, ascending; all rows if `size` is None or at least `count`."""
    if size is None or size >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, size=size, replace=False))
