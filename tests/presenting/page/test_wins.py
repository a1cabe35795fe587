from collections.abc import Callable
from pathlib import Path

import polars as pl

from gnn_encoder.presenting.page.wins import Pair, pairs, read_values

VALUES = pl.DataFrame(
    {
        "qid": ["q0", "q1", "q2", "q3", "q4"],
        "a": [0.0, 0.5, 1.0, 0.2, None],
        "b": [1.0, 0.5, 0.0, 0.3, 1.0],
        "c": [0.0, 1.0, 1.0, 0.2, 0.0],
    }
)


def test_most_won_and_lost_first() -> None:
    first, second, third = pairs(VALUES, top=1)
    assert first == Pair(first="a", second="b", won=[0], lost=[2], better=2, worse=1, same=1)
    assert second == Pair(first="a", second="c", won=[1], lost=[], better=1, worse=0, same=3)
    # b loses 1.0 on q0 and on q4: q0 was shown before. It gains 1.0 on q2.
    assert third == Pair(first="b", second="c", won=[2], lost=[0], better=2, worse=3, same=0)


def test_ties_are_in_the_order_of_queries_unless_shown_before() -> None:
    values = pl.DataFrame({"qid": ["q0", "q1", "q2"], "a": [0.0, 0.0, 0.0], "b": [0.0, 0.5, 1.0], "c": [1.0, 1.0, 1.0]})
    assert [pair.won for pair in pairs(values, top=2)] == [[2, 1], [1, 2], [0, 1]]


def test_values_of_systems_side_by_side(empty: Path, measure: Callable[..., None]) -> None:
    measure("dual_encoder", "gnn_encoder")
    values = read_values(["dual_encoder", "gnn_encoder"], "test", "RR@10")
    assert values.columns == ["qid", "dual_encoder", "gnn_encoder"]
    assert values.rows() == [("q0", 1.0, 1.0), ("q1", 0.5, 1.0), ("q2", 1 / 3, 0.0)]
