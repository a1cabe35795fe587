"""Pooling by hand."""

import pytest
import torch

from gnn_encoder.text.batches import embedding, pool

STATES = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [100.0, float("nan")]], [[3.0, 4.0], [0.0, 0.0], [0.0, 2.0]]])
MASK = torch.tensor([[1, 1, 0], [1, 1, 1]])


def test_cls_is_the_first_state() -> None:
    assert pool(STATES, MASK, "cls").tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_mean_leaves_padding_out_whatever_it_holds() -> None:
    assert pool(STATES, MASK, "mean").tolist() == [[2.0, 3.0], [1.0, 2.0]]


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("lasttoken", [3.0, 4.0], [0.0, 2.0]),
        ("max", [3.0, 4.0], [3.0, 4.0]),
    ],
)
def test_the_others_leave_padding_out_too(kind: str, first: list[float], second: list[float]) -> None:
    torch.testing.assert_close(pool(STATES, MASK, kind), torch.tensor([first, second]))


def test_mean_of_16_bit_states_is_added_up_in_float32() -> None:
    states = torch.full((1, 1000, 1), 1.0, dtype=torch.bfloat16)
    states[0, 0, 0] = 257.0  # bfloat16: 256
    assert pool(states, torch.ones(1, 1000), "mean").item() == pytest.approx((256 + 999) / 1000)


def test_cosine_has_length_one_and_dot_is_as_pooled() -> None:
    vectors = embedding(STATES, MASK, pooling="cls", similarity="cosine")
    torch.testing.assert_close(vectors[1], torch.tensor([0.6, 0.8]))
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(2))
    assert embedding(STATES, MASK, pooling="cls", similarity="dot").tolist() == [[1.0, 2.0], [3.0, 4.0]]
