"""What the network does to passages, by hand."""

import math

import numpy as np
import polars as pl
import pytest

from gnn_encoder.graph.effect import effect_of

# Passage 3 attends to two queries and itself, passage 5 to one query alone, passage 8 to all alike.
ROWS = [
    *((0, 3, 0.5, 0.1), (4, 3, 0.25, 0.1), (-1, 3, 0.25, 0.1)),
    *((4, 5, 1.0, 0.3), (-1, 5, 0.0, 0.3)),
    *((1, 8, 0.25, 0.2), (2, 8, 0.25, 0.2), (7, 8, 0.25, 0.2), (-1, 8, 0.25, 0.2)),
]
SCHEMA = {"query": pl.Int32, "passage": pl.Int32, "attention": pl.Float32, "gate": pl.Float32}


def test_by_hand() -> None:
    before = np.zeros((3, 2), np.float32)
    after = np.array([[3, 4], [0, 0], [0, 1]], np.float16)
    found = effect_of(pl.DataFrame(ROWS, SCHEMA, orient="row"), before, after)
    assert found.passages == 3
    assert found.gate == pytest.approx(0.2, abs=1e-6)
    assert found.gate_spread == pytest.approx(math.sqrt(0.02 / 3), abs=1e-6)
    assert found.attention_to_itself == pytest.approx(0.5 / 3, abs=1e-6)
    assert found.attention_entropy == pytest.approx((1.5 * math.log(2) / math.log(3) + 0 + 1) / 3, abs=1e-6)
    assert found.shift == pytest.approx(2)
    assert list(found.lines())[0] == "of 3 passages with queries, h' is 2.000 from h on average"
