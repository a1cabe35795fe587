"""Batches of like length and windows: results in the rows' order, inputs made ahead in order."""

import numpy as np
import pytest
import torch

from gnn_encoder.text.batches import Batch, encode_by_length, length_batches, padded
from gnn_encoder.text.inputs import encode_prepared, prefetch, prepare_rows

LENGTHS = np.array([3, 9, 1, 9, 4, 2])


class Numbers:
    """Row r is a text of LENGTHS[r] tokens, whose batch holds r itself."""

    def __len__(self) -> int:
        return len(LENGTHS)

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        return LENGTHS[rows]

    def batch(self, rows: np.ndarray) -> Batch:
        ids = torch.from_numpy(rows)[:, None]
        return Batch(ids, torch.ones_like(ids), torch.zeros_like(ids))

    def release(self) -> None: ...


def test_rows_come_back_in_order() -> None:
    seen: list[int] = []

    def encode(batch: Batch) -> torch.Tensor:
        seen.append(len(batch.input_ids))
        return torch.cat([batch.input_ids * 10.0, -batch.input_ids], dim=1)

    rows = np.array([2, 3, 0, 1, 5, 4])
    vectors = encode_prepared(prepare_rows(Numbers(), rows, batch_tokens=32), 6, encode)
    assert vectors.tolist() == [[10.0 * row, -row] for row in rows]
    assert vectors.dtype == np.float32
    assert seen == [2, 4]


def test_prefetch_passes_errors_on() -> None:
    def make(item: int) -> int:
        if item == 1:
            raise ValueError("row 1")
        return item

    results = prefetch(make, range(3))
    assert next(results) == (0, 0)
    with pytest.raises(ValueError, match="row 1"):
        next(results)


def test_batches_of_like_length_by_hand() -> None:
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


def test_a_batch_ends_early_where_its_rest_is_cheaper_alone() -> None:
    """Two rows of 24 padded tokens and five of 8: an end after the two spares 5 x 16."""
    lengths = np.array([24, 8, 7, 6, 17, 8, 3])
    batches = length_batches(lengths, 1000, 79)
    assert [batch.tolist() for batch in batches] == [[0, 4], [1, 5, 2, 3, 6]]
    assert len(length_batches(lengths, 1000, 80)) == 1
    assert [batch.tolist() for batch in length_batches(lengths, 48, 0)] == [[0, 4], [1, 5, 2, 3, 6]]


def test_ending_early_never_costs_more() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        lengths, fixed = generator.integers(1, 130, size=generator.integers(1, 70)), int(generator.integers(0, 200))
        costs = []
        for batches in (length_batches(lengths, 3072, fixed), length_batches(lengths, 3072)):
            assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
            costs.append(sum(fixed + len(batch) * padded(int(lengths[batch].max())) for batch in batches))
        assert costs[0] <= costs[1]


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
