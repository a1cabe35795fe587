"""What distinguishes the judged queries of a split, as labels by which they are sliced.

similarity  the third that a query is in by its similarity to the nearest training query
labelled    yes: at least one of its relevant passages is labelled for a training query
cut         yes: at least one of its relevant passages is longer than what the encoder reads
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.judgements import relevant_pairs
from gnn_encoder.base.matrix import Rows, of_length_1
from gnn_encoder.base.tables import count_rows, read_column
from gnn_encoder.data.answers import judged_by_answers
from gnn_encoder.evaluation.slices import CUT, LABELLED, SIMILARITY, About

THIRDS = ("lower third", "middle third", "upper third")
DECIMALS = 3  # of a similarity: equal queries must not differ by the noise of the arithmetic
PRODUCTS = 2**22  # similarities in memory at a time


def label_queries(
    queries: Path,
    relevant: Path | None,
    passages: Path,
    *,
    labelled: Rows,
    similarities: NDArray[np.float64],
    is_cut: Callable[[Rows], NDArray[np.bool_]],
    passage_length: int,
) -> tuple[pl.DataFrame, About]:
    """Label the judged queries of a split: column qid, and a column for each property.

    A query without a relevant passage has no label.

    Args:
        relevant: a table of qrels. None: answers judge, and nobody knows which passages are relevant; then no column
            depends on them.
        labelled: rows of the passages that are labelled for a training query.
        similarities: to the nearest training query. *Shape:* (queries of the split,).
        is_cut: which of some passages are longer than `passage_length`. *Shape:* rows (n,) -> (n,).
    """
    pairs = relevant_pairs(queries, relevant, passages) if relevant else None
    rows = np.arange(count_rows(queries))
    if pairs is not None and not judged_by_answers(queries):
        rows = pairs["query"].unique().sort().to_numpy()
    if len(rows) == 0:
        raise UserError(f"{relevant}: no query has a passage with a grade above 0; there is nothing to measure")
    third, bounds = thirds(similarities[rows])
    table = pl.DataFrame({"qid": pl.Series(read_column(queries, "qid"))[rows], SIMILARITY: third})
    if pairs is None:
        return table, About(thirds=bounds, passage_length=passage_length, left_out=(LABELLED, CUT))
    found = pairs["passage"].to_numpy()
    flags = pairs.with_columns(pl.Series(LABELLED, np.isin(found, labelled)), pl.Series(CUT, is_cut(found)))
    flags = flags.group_by("query").agg(pl.col(LABELLED, CUT).any().replace_strict({True: "yes", False: "no"}))
    table = table.with_columns(query=pl.Series(rows, dtype=pl.Int32))
    table = table.join(flags, on="query", how="left", maintain_order="left").drop("query")
    return table, About(thirds=bounds, passage_length=passage_length, left_out=())


def nearest_similarity(queries: NDArray[np.float32], blocks: Iterable[NDArray[np.float32]]) -> NDArray[np.float64]:
    """Cosine of each query with the training query that is nearest to it, rounded to `DECIMALS`.

    Args:
        queries: *Shape:* (n, d).
        blocks: the training queries, some of them at a time. *Shape:* each (any, d), with a row at least.

    *Shape:* (n,).
    """
    queries = of_length_1(queries)
    nearest = np.full(len(queries), -np.inf, dtype=np.float32)
    for block in map(of_length_1, blocks):
        size = max(1, PRODUCTS // len(block))
        for first in range(0, len(queries), size):
            part = slice(first, first + size)
            np.maximum(nearest[part], (queries[part] @ block.T).max(axis=1), out=nearest[part])
    return nearest.astype(np.float64).round(DECIMALS)


def thirds(similarities: NDArray[np.float64]) -> tuple[NDArray[np.str_], tuple[float, float]]:
    """The third that each query is in, and the similarities from which on it is the middle and the upper one.

    A third begins at the similarity that stands a third (two thirds) of the way up, so that equal similarities are
    always in the same third, the higher of those that they could be in. With many equal ones thirds differ in size, and
    the lower or the middle one may be empty.

    *Shape:* (n,), with n of 1 or more -> (n,).
    """
    ordered, last = np.sort(similarities), len(similarities) - 1
    middle, upper = (float(ordered[min(last, -(-part * len(ordered) // 3))]) for part in (1, 2))
    names: NDArray[Any] = np.array(THIRDS)
    return names[(similarities >= middle).astype(int) + (similarities >= upper)], (middle, upper)
