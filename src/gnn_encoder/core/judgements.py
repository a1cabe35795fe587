"""Judgements as rows of the tables: which passages are relevant for which queries."""

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.core.records import COUNTS, read_table
from gnn_encoder.core.rows import Rows


def relevant_pairs(queries: Path, qrels: Path, passages: Path) -> pl.DataFrame:
    """Pairs of a split that are judged relevant, as row numbers of its tables: columns `query`, `passage`, sorted."""
    query_rows = pl.scan_parquet(queries).select("qid").with_row_index("query")
    passage_rows = pl.scan_parquet(passages).select("pid").with_row_index("passage")
    pairs = pl.scan_parquet(qrels).filter(pl.col("grade") > 0).join(query_rows, on="qid").join(passage_rows, on="pid")
    return pairs.select(pl.col("query", "passage").cast(pl.Int32)).unique().sort("query", "passage").collect()


def pair_counts(queries: Path, counts: Path, passages: Path) -> pl.DataFrame:
    """How often pairs were logged, as rows of the tables: columns `query`, `passage`, `count`; empty if none was.

    Args:
        counts: a COUNTS table; its pairs of queries that are not in `queries` are passed over.
    """
    table = read_table(counts, COUNTS)
    if table.is_empty():  # the source does not count: the passages need not be read
        return table.select(query=pl.lit(0, pl.Int32), passage=pl.lit(0, pl.Int32), count="count")
    return with_rows(table, queries, passages).select("query", "passage", "count")


def with_rows(run: pl.DataFrame, queries: Path, passages: Path) -> pl.DataFrame:
    """Add the row numbers of a run's ids in their tables to the run, as columns `query` and `passage`.

    A line of the run is left out when its query or its passage is not in the table.

    Args:
        run: columns qid, pid, among others.
    """
    wanted = run["pid"].unique().implode()
    query_rows = pl.scan_parquet(queries).select("qid").with_row_index("query").collect()
    passage_rows = pl.scan_parquet(passages).select("pid").with_row_index("passage").filter(pl.col("pid").is_in(wanted))
    found = run.join(query_rows, on="qid", maintain_order="left")
    found = found.join(passage_rows.collect(engine="streaming"), on="pid", maintain_order="left")
    return found.with_columns(pl.col("query", "passage").cast(pl.Int32))


def pair_keys(pairs: pl.DataFrame, n_passages: int) -> Rows:
    """Sorted keys query * n_passages + passage."""
    keys = pairs["query"].to_numpy().astype(np.int64) * n_passages + pairs["passage"].to_numpy()
    return np.sort(keys)


def contains(known: Rows, keys: Rows) -> NDArray[np.bool_]:
    """Membership of `keys` (any shape) in the sorted array `known`."""
    if len(known) == 0:
        return np.zeros(keys.shape, dtype=bool)
    at = np.searchsorted(known, keys).clip(max=len(known) - 1)
    found: NDArray[np.bool_] = known[at] == keys
    return found
