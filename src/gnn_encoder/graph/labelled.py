"""Labelled passages among a query's edges: what the query log knows and retrieval may not find."""

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base.matrix import Rows, gather

PAIRS_AT_A_TIME = 8_192


def labelled_first(
    passages: Rows, scores: NDArray[np.float32], pairs: pl.DataFrame, queries: NDArray[np.float32], matrix: NDArray[Any]
) -> tuple[Rows, NDArray[np.float32]]:
    """Each query's k passages, of which those that it is labelled with come first, and then the best others.

    Both parts are sorted by M_de's score. A query with more than k labelled passages keeps the k best of them.

    Args:
        passages: the k best passages of each query. *Shape:* (n, k).
        scores: their scores. *Shape:* (n, k).
        pairs: labelled pairs, columns query, passage.
        queries: the queries' embeddings. *Shape:* (n, d).
        matrix: M_de's passage embeddings. *Shape:* (m, d).

    Returns:
        Passages and scores. *Shape:* both (n, k).
    """
    n, k = passages.shape
    ends = {"query": pl.Int32, "passage": pl.Int32}
    pairs = pairs.select(pl.col(name).cast(kind) for name, kind in ends.items())
    labelled = pairs.with_columns(score=pl.Series(_scores(pairs, queries, matrix), dtype=pl.Float32), labelled=True)
    found = pl.DataFrame(
        {"query": np.repeat(np.arange(n), k), "passage": passages.reshape(-1), "score": scores.reshape(-1)},
        schema={**ends, "score": pl.Float32},
    ).join(pairs, on=list(ends), how="anti")
    every = pl.concat([labelled, found.with_columns(labelled=False)])
    every = every.sort("query", "labelled", "score", "passage", descending=[False, True, True, False])
    kept = every.filter(pl.int_range(pl.len()).over("query") < k)
    return kept["passage"].to_numpy().reshape(n, k), kept["score"].to_numpy().reshape(n, k)


def _scores(pairs: pl.DataFrame, queries: NDArray[np.float32], matrix: NDArray[Any]) -> NDArray[np.float32]:
    rows = pairs["query"].to_numpy(), pairs["passage"].to_numpy()
    found = np.empty(len(pairs), dtype=np.float32)
    for first in range(0, len(pairs), PAIRS_AT_A_TIME):
        part = slice(first, first + PAIRS_AT_A_TIME)
        embedded = gather(matrix, rows[1][part]).astype(np.float32)
        found[part] = np.einsum("ij,ij->i", queries[rows[0][part]], embedded)
    return found
