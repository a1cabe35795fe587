"""Figure 4's numbers by hand."""

import numpy as np
import polars as pl
import pytest

from gnn_encoder.pair.similarity import similarities, triples

PAIR = {"query": pl.Int32, "passage": pl.Int32}


def test_similarities_by_hand() -> None:
    queries = np.array([[1.0, 0.0], [0.0, 1.0]])
    positives = np.array([[0.6, 0.8], [0.0, 1.0]])
    negatives = np.array([[1.0, 0.0], [0.8, 0.6]])
    assert similarities(queries, positives, negatives) == pytest.approx(
        {"s(p+,q)": 0.8, "s(p+,q) std": 0.2, "s(p+,p-)": 0.6, "s(p+,p-) std": 0.0}
    )


def test_each_positive_with_the_best_ranked_passage_that_is_not_relevant() -> None:
    pairs = pl.DataFrame([(0, 5), (0, 6), (1, 7), (2, 8)], schema=PAIR, orient="row")
    retrieved = pl.DataFrame(
        [(0, 9, 2), (0, 5, 0), (0, 4, 1), (1, 3, 0), (2, 8, 0)],  # query 2 retrieved its own passage alone
        schema=PAIR | {"rank": pl.Int16},
        orient="row",
    )
    assert triples(pairs, retrieved).rows() == [(0, 5, 4), (0, 6, 4), (1, 7, 3)]
