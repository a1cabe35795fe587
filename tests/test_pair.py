"""PAIR: which candidates become pseudo-labels, and their accuracy, by hand."""

import polars as pl
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.pair import accuracy, label_unlabelled
from gnn_encoder.pipeline.params import Thresholds

from .texts import PAIR, pairs

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
    schema=PAIR | {"score": pl.Float32},
    orient="row",
)
PAIRS = pairs((0, 10), (0, 13), (1, 10), (2, 99), (3, 98))


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


def section(s_pos: float = 0.85) -> Thresholds:
    return Thresholds(positive_threshold=s_pos, negative_threshold=0.1)


def test_unlabelled_queries_by_hand() -> None:
    """Their quality is of the queries whose labels are hidden, here query 0, and first at the thresholds that count."""
    found, counts = label_unlabelled(SCORED, PAIRS[:2], section())
    assert found.rows() == [(0, [10, 11], [13]), (1, [10], [14]), (2, [15], [])]
    quality = counts.pop("quality")
    assert list(counts.values()) == [3, 3, 4, 2]
    assert quality[0] == accuracy(SCORED[:4], PAIRS, s_pos=0.85, s_neg=0.1)
    assert [row["s_pos"] for row in quality] == [0.85, 0.9, 0.8, 0.7, 0.6]
    with pytest.raises(UserError, match="no candidate of 3 unlabelled queries .* the highest score is 0.99"):
        label_unlabelled(SCORED, PAIRS, section(0.995))
