"""What the baselines are made of: rankings as matrices of passages and scores, and the queries that have a label."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base.judgements import with_rows
from gnn_encoder.base.matrix import Rows, Scores
from gnn_encoder.base.runs import as_matrices, read_run
from gnn_encoder.base.tables import count_rows
from gnn_encoder.search.exact import least, of_scores, unpack

Ranking = tuple[Rows, Scores]  # (n, k) both: each query's passages, -1 where there are fewer, and their scores
NOTHING = np.float32(-np.inf)  # the score where there is no passage


def read_ranking(run: Path, queries: Path, passages: Path) -> Ranking:
    """A system's run of all queries of a table. *Shape:* (queries, longest ranking) both."""
    found = with_rows(read_run(run), queries, passages)
    rows, scores = as_matrices(found, np.arange(count_rows(queries)))
    scores[rows < 0] = NOTHING
    return rows, scores


def labelled_rows(pairs: pl.DataFrame) -> tuple[Rows, pl.DataFrame]:
    """Rows of the queries that have a label, and the labels with a query's place among them. *Shape:* (n,).

    Args:
        pairs: columns query and passage.
    """
    rows, places = np.unique(pairs["query"].to_numpy(), return_inverse=True)
    return rows, pairs.with_columns(query=pl.Series(places))


def best(passages: NDArray[Any], scores: Scores, depth: int) -> Ranking:
    """Each query's `depth` best passages, the lower row first among equals.

    *Shape:* (n, k) both, in any order, passages -1 with score `NOTHING` -> (n, min(k, depth)) both.
    """
    return unpack(np.sort(least(of_scores(passages, scores), depth)))


def union(first: Rows, second: Rows) -> tuple[Rows, Rows, Rows]:
    """The passages that either of two rankings has, each once a query.

    *Shape:* (n, a), (n, b) -> (n, a + b) three times: passages, padded with -1 anywhere; their columns in `first`; in
    `second`. A column is -1 where the ranking does not have the passage.
    """
    passages = np.concatenate([first, second], axis=1)
    order = np.argsort(passages, axis=1, kind="stable")  # a passage of both stands first as that of `first`
    passages, width = np.take_along_axis(passages, order, axis=1), first.shape[1]
    in_first = np.where(order < width, order, -1)
    in_second = np.where(order >= width, order - width, -1)
    again = np.zeros(passages.shape, dtype=bool)
    again[:, 1:] = (passages[:, 1:] == passages[:, :-1]) & (passages[:, 1:] >= 0)
    in_second[:, :-1] = np.where(again[:, 1:], in_second[:, 1:], in_second[:, :-1])
    passages[again] = -1
    return passages, in_first, in_second


def taken(columns: Rows, values: Scores, otherwise: Scores) -> Scores:
    """`values` at `columns`; `otherwise` where a column is -1.

    *Shape:* (n, c), (n, a), (n,) -> (n, c).
    """
    if values.shape[1] == 0:
        return np.broadcast_to(otherwise[:, None], columns.shape).astype(np.float32)
    found = np.take_along_axis(values, np.maximum(columns, 0), axis=1)
    return np.where(columns >= 0, found, otherwise[:, None]).astype(np.float32)
