"""Batches of like length."""

import numpy as np
import pytest

from gnn_encoder.encoders.batching import length_batches


def test_by_hand() -> None:
    batches = length_batches(np.array([2, 5, 1, 5, 3]), 10)
    assert [batch.tolist() for batch in batches] == [[1, 3], [4, 0, 2]]


@pytest.mark.parametrize("budget", [1, 7, 64, 10_000])
def test_every_position_once_and_no_batch_over_the_budget(budget: int) -> None:
    lengths = np.random.default_rng(0).integers(0, 30, size=101).astype(np.int32)
    batches = length_batches(lengths, budget)
    assert sorted(np.concatenate(batches).tolist()) == list(range(101))
    longest = [max(1, int(lengths[batch].max())) for batch in batches]
    assert longest == sorted(longest, reverse=True)
    for batch, width in zip(batches, longest, strict=True):
        assert len(batch) * width <= budget or len(batch) == 1


def test_nothing() -> None:
    assert length_batches(np.array([], dtype=np.int64), 10) == []
