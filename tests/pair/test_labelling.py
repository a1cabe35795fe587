"""Which candidates become pseudo-labels, and their accuracy, by hand."""

import polars as pl
import pytest

from gnn_encoder.pair.labelling import accuracy, pseudo_label

SCORED = pl.DataFrame(
    [
        (0, 10, 0.95),
        (0, 11, 0.91),
        (0, 12, 0.50),
        (0, 13, 0.05),
        (1, 10, 0.89),  # no positive: left out
        (1, 14, 0.01),
        (2, 15, 0.99),  # no negative
        (2, 16, 0.30),
    ],
    schema={"query": pl.Int32, "passage": pl.Int32, "score": pl.Float32},
    orient="row",
)
PAIRS = pl.DataFrame(
    [(0, 10), (0, 13), (1, 10), (2, 99)], schema={"query": pl.Int32, "passage": pl.Int32}, orient="row"
)


def test_pseudo_labels_by_hand() -> None:
    table = pseudo_label(SCORED, s_pos=0.9, s_neg=0.1)
    assert table.columns == ["query", "positives", "negatives"]
    assert table.rows() == [(0, [10, 11], [13]), (2, [15], [])]
    assert pseudo_label(SCORED, s_pos=0.8, s_neg=0.4).rows() == [(0, [10, 11], [13]), (1, [10], [14]), (2, [15], [16])]


def test_accuracy_by_hand() -> None:
    assert accuracy(SCORED, PAIRS, s_pos=0.9, s_neg=0.1) == {
        "s_pos": 0.9,
        "s_neg": 0.1,
        "positives": 3,  # (0, 10) is judged relevant; (0, 11) and (2, 15) are not
        "accuracy_of_positives": pytest.approx(1 / 3),
        "negatives": 2,  # (0, 13) is judged relevant; (1, 14) is not
        "accuracy_of_negatives": pytest.approx(1 / 2),
    }
    none = accuracy(SCORED, PAIRS, s_pos=0.995, s_neg=0.001)
    assert (none["positives"], none["negatives"]) == (0, 0)
    assert none["accuracy_of_positives"] is None and none["accuracy_of_negatives"] is None
