"""The dev sample that trainings are scored on: a fixed sample of dev queries, which rank a fixed pool of passages."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base.matrix import Rows

DEPTH = 10  # passages that a dev query adds to a pool; the systems that make it share them
WHOLE = 2_000  # a corpus of at most so many passages is ranked whole


@dataclass(frozen=True)
class DevSample:
    """Sampled dev queries and their pool: passages that were retrieved for one of them, and all their positives."""

    queries: Rows  # (q,) rows of the dev table, in order
    pool: Rows  # (p,) passage rows, sorted
    relevant: NDArray[np.bool_]  # (q, p)
    own: NDArray[np.bool_] | None = None  # (q, p), passages that a query is itself, which it does not rank


def sample_queries(pairs: pl.DataFrame, size: int, seed: int) -> Rows:
    """A fixed random sample of the judged queries, of those with a row in `pairs`."""
    judged = pairs["query"].unique().sort().to_numpy().astype(np.int64)
    chosen = np.random.default_rng(seed).permutation(judged)[:size]
    return np.sort(chosen)


def retrieved_pairs(queries: Rows, retrieved: NDArray[np.integer[Any]]) -> pl.DataFrame:
    """Queries with their retrieved passages, columns query, passage. *Shape:* queries (q,), retrieved (q, depth)."""
    columns = {"query": np.repeat(queries, retrieved.shape[1]), "passage": retrieved.reshape(-1)}
    return pl.DataFrame({name: rows.astype(np.int32) for name, rows in columns.items()})


def candidates_of(queries: Rows, pairs: pl.DataFrame, retrieved: pl.DataFrame) -> pl.DataFrame:
    """The relevant and the `retrieved` pairs of the sampled queries, as the DEV_CANDIDATES table.

    `pairs` and `retrieved` have the columns query, passage. *Shape:* queries (q,).
    """
    relevant = pairs.select("query", "passage", relevant=pl.lit(True))
    others = retrieved.select("query", "passage").unique().join(pairs, on=["query", "passage"], how="anti")
    found = pl.concat([relevant, others.with_columns(relevant=pl.lit(False))])
    return found.filter(pl.col("query").is_in(queries.tolist())).sort("query", "passage")


def dev_sample(
    queries: Rows, pairs: pl.DataFrame, retrieved: NDArray[np.integer[Any]], own: pl.DataFrame | None = None
) -> DevSample:
    """The sample of `queries`, ascending rows of the dev table, whose pool is `retrieved` and all their positives.

    `pairs` are judged relevant, `own` are queries and the passages that they are themselves: columns query, passage.
    *Shape:* queries (q,), retrieved any.
    """
    asked = pl.col("query").is_in(queries.tolist())
    judged = pairs.filter(asked)["passage"].to_numpy().astype(np.int64)
    pool = np.unique(np.concatenate([retrieved.reshape(-1).astype(np.int64), judged]))

    def among(pairs: pl.DataFrame) -> NDArray[np.bool_]:
        mask = np.zeros((len(queries), len(pool)), dtype=bool)
        pairs = pairs.filter(asked, pl.col("passage").is_in(pool.tolist()))
        places = (
            np.searchsorted(queries, pairs["query"].to_numpy()),
            np.searchsorted(pool, pairs["passage"].to_numpy()),
        )
        mask[places] = True
        return mask

    return DevSample(queries, pool, among(pairs), None if own is None or own.is_empty() else among(own))


def pooled_sample(found: pl.DataFrame, n_passages: int, own: pl.DataFrame | None = None) -> DevSample:
    """The sample of trainings that have no passage matrix of their start: a DEV_CANDIDATES table makes its pool."""
    queries, passages = found["query"].unique().sort().to_numpy().astype(np.int64), found["passage"].to_numpy()
    return dev_sample(queries, found.filter("relevant"), ranked(passages, n_passages, WHOLE), own)


def ranked(retrieved: NDArray[np.integer[Any]], n_passages: int, limit: int) -> NDArray[np.integer[Any]]:
    """The passages that are ranked: the whole corpus if it has at most `limit` passages, else the `retrieved` ones."""
    return np.arange(n_passages) if n_passages <= limit else retrieved
