"""How close positives are to their questions and to hard negatives (PAIR, section 4.5, Figure 4)."""

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

Vectors = NDArray[np.floating[Any]]


def similarities(queries: Vectors, positives: Vectors, negatives: Vectors) -> dict[str, float]:
    """Mean and standard deviation of s(p+, q) and s(p+, p-) over triples.

    *Shape:* (n, d) each, row i being triple i.
    """
    to_question = np.einsum("nd,nd->n", positives, queries)
    to_negative = np.einsum("nd,nd->n", positives, negatives)
    return {
        "s(p+,q)": float(to_question.mean()),
        "s(p+,q) std": float(to_question.std()),
        "s(p+,p-)": float(to_negative.mean()),
        "s(p+,p-) std": float(to_negative.std()),
    }


def triples(pairs: pl.DataFrame, retrieved: pl.DataFrame) -> pl.DataFrame:
    """Every relevant pair with the question's first retrieved passage that is not relevant.

    Args:
        pairs: judged-relevant pairs, columns query, passage.
        retrieved: columns query, passage, rank.

    Returns:
        Columns query, passage, negative; questions without a negative are left out.
    """
    negatives = (
        retrieved.join(pairs, on=["query", "passage"], how="anti")
        .sort("query", "rank")
        .group_by("query", maintain_order=True)
        .agg(pl.col("passage").first().alias("negative"))
    )
    return pairs.join(negatives, on="query").sort("query", "passage")
