"""Batches of like length."""

import numpy as np
import pytest
import torch

from gnn_encoder.encoding.batching import encode_by_length, length_batches
from gnn_encoder.encoding.tokens import padded
from gnn_encoder.models.batch import Batch


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


def batch_of(lengths: list[int]) -> Batch:
    """Text i has `lengths[i]` tokens, each of which is i + 1."""
    mask = (torch.arange(padded(max(lengths))) < torch.tensor(lengths).unsqueeze(1)).long()
    ids = mask * torch.arange(1, len(lengths) + 1).unsqueeze(1)
    return Batch(ids, mask, 2 * mask)


@pytest.mark.parametrize("budget", [8, 16, 40, 1000])
def test_results_come_in_the_order_of_the_batch(budget: int) -> None:
    lengths = [2, 15, 1, 9, 3]
    shapes = []

    def encode(batch: Batch) -> torch.Tensor:
        assert torch.equal(batch.token_type_ids, 2 * batch.attention_mask)
        shapes.append(tuple(batch.input_ids.shape))
        return torch.stack([batch.input_ids.sum(1), batch.attention_mask.sum(1)], dim=1)

    found = encode_by_length(encode, batch_of(lengths), budget)
    assert found.tolist() == [[length * (i + 1), length] for i, length in enumerate(lengths)]
    assert all(rows * width <= budget or rows == 1 for rows, width in shapes)
    assert shapes == {8: [(1, 16)] * 2 + [(1, 8)] * 3, 16: [(1, 16)] * 2 + [(2, 8), (1, 8)]}.get(
        budget, [(2, 16), (3, 8)] if budget == 40 else [(5, 16)]
    )
