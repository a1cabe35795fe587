"""Batches of like length."""

import numpy as np
import pytest

from gnn_encoder.encoding.batching import length_batches
from gnn_encoder.encoding.tokens import padded


def test_by_hand() -> None:
    batches = length_batches(np.array([2, 15, 1, 9, 3]), 32)
    assert [batch.tolist() for batch in batches] == [[1, 3], [4, 0, 2]]


@pytest.mark.parametrize("budget", [1, 7, 64, 10_000])
def test_every_position_once_and_no_batch_over_the_budget(budget: int) -> None:
    lengths = np.random.default_rng(0).integers(0, 30, size=101).astype(np.int32)
    batches = length_batches(lengths, budget)
    assert sorted(np.concatenate(batches).tolist()) == list(range(101))
    longest = [int(lengths[batch].max()) for batch in batches]
    assert longest == sorted(longest, reverse=True)
    widths = [padded(max(1, length)) for length in longest]
    for batch, width in zip(batches, widths, strict=True):
        assert len(batch) * width <= budget or len(batch) == 1
    shapes = {(len(batch), width) for batch, width in zip(batches[:-1], widths, strict=False)}
    assert len(shapes) <= len(set(widths)), "one size a width, but for the last batch"


def test_nothing() -> None:
    assert length_batches(np.array([], dtype=np.int64), 10) == []
