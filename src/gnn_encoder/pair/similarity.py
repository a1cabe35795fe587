"""The similarity of positives to their queries and to hard negatives (PAIR, section 4.5, Figure 4)."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base.judgements import with_rows
from gnn_encoder.data.answers import DEPTH, Kind, answered, judged_by_answers

Vectors = NDArray[np.floating[Any]]


def similarities(queries: Vectors, positives: Vectors, negatives: Vectors) -> dict[str, float]:
    """Mean and standard deviation of s(p+, q) and s(p+, p-) over triples of a query, a positive and a negative.

    *Shape:* (n, d) each; row i belongs to triple i.
    """
    to_query = np.einsum("nd,nd->n", positives, queries)
    to_negative = np.einsum("nd,nd->n", positives, negatives)
    return {
        "s(p+,q)": float(to_query.mean()),
        "s(p+,q) std": float(to_query.std()),
        "s(p+,p-)": float(to_negative.mean()),
        "s(p+,p-) std": float(to_negative.std()),
    }


def triples(pairs: pl.DataFrame, retrieved: pl.DataFrame) -> pl.DataFrame:
    """Every relevant pair, together with a hard negative: the query's first retrieved passage that is not relevant.

    Args:
        pairs: judged-relevant pairs, columns query, passage.
        retrieved: columns query, passage, rank.

    Returns:
        Columns query, passage, negative; queries without a negative are left out.
    """
    negatives = (
        retrieved.join(pairs, on=["query", "passage"], how="anti")
        .sort("query", "rank")
        .group_by("query", maintain_order=True)
        .agg(pl.col("passage").first().alias("negative"))
    )
    return pairs.join(negatives, on="query").sort("query", "passage")


def not_answering(run: pl.DataFrame, queries: Path, passages: Path, kind: Kind) -> pl.DataFrame:
    """A run by rows of the tables: columns query, passage, rank.

    Where answers judge the queries, passages that hold one are left out, and those beyond the first `DEPTH`.
    """
    by_answers = judged_by_answers(queries)
    run = run.filter(pl.col("rank") <= DEPTH) if by_answers else run
    rows = with_rows(run, queries, passages).select("query", "passage", "rank")
    return (
        rows.join(answered(rows, queries, passages, kind), on=["query", "passage"], how="anti") if by_answers else rows
    )
