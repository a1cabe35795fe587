"""Segment operations against dense softmax and plain loops: values and gradients."""

import sys
from types import SimpleNamespace

import pytest
import torch

from gnn_encoder.base.errors import UserError
from gnn_encoder.gnn.segment import segment_softmax, segment_sum, segment_weighted_sum

from .oracle import assert_same, random

INDEX = torch.tensor([2, 0, 2, 0, 2, 4])  # unsorted; segments 1 and 3 are empty
SOURCE = torch.tensor([1, 0, 0, 2, 2, 1])
N = 5


def test_sum_has_the_values_worked_out_by_hand() -> None:
    values = torch.tensor([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0], [8.0, 80.0], [16.0, 160.0], [32.0, 320.0]])
    expected = torch.tensor([[10.0, 100.0], [0.0, 0.0], [21.0, 210.0], [0.0, 0.0], [32.0, 320.0]])
    assert torch.equal(segment_sum(values, INDEX, N), expected)


def test_softmax_equals_dense_softmax() -> None:
    logits = random(6, 3)
    dense = torch.zeros_like(logits)
    for segment in INDEX.unique():
        rows = torch.where(INDEX == segment)[0]
        dense = dense.index_copy(0, rows, logits[rows].softmax(dim=0))
    assert_same(segment_softmax(logits, INDEX, N), dense, [logits])


def test_softmax_does_not_overflow() -> None:
    logits = torch.tensor([[1000.0], [-1000.0], [999.0]])
    weights = segment_softmax(logits, torch.tensor([0, 1, 0]), 2)
    torch.testing.assert_close(weights, torch.tensor([[0.7310586], [1.0], [0.2689414]]))


@pytest.mark.parametrize("learns", [(True, True), (True, False)])
def test_weighted_sum_equals_a_loop_over_edges(learns: tuple[bool, bool]) -> None:
    """An input whose gradient nobody asks for has none."""
    weights, values = (
        x.detach().requires_grad_(on) for x, on in zip((random(6, 2), random(3, 2, 4)), learns, strict=True)
    )
    rows = [torch.zeros(values.shape[1:], dtype=values.dtype) for _ in range(N)]
    for edge, (source, target) in enumerate(zip(SOURCE.tolist(), INDEX.tolist(), strict=True)):
        rows[target] = rows[target] + weights[edge].unsqueeze(1) * values[source]
    ours = segment_weighted_sum(weights, values, SOURCE, INDEX, N)
    assert_same(ours, torch.stack(rows), [x for x in (weights, values) if x.requires_grad])


def stand_in() -> SimpleNamespace:
    """torch_scatter as PyTorch itself computes it."""

    def scatter_max(values: torch.Tensor, index: torch.Tensor, dim: int, dim_size: int) -> tuple[torch.Tensor]:
        lowest = values.new_full((dim_size, values.shape[1]), -torch.inf)
        return (lowest.scatter_reduce(dim, index.unsqueeze(1).expand_as(values), values, "amax"),)

    def scatter_sum(values: torch.Tensor, index: torch.Tensor, dim: int, dim_size: int) -> torch.Tensor:
        return values.new_zeros(dim_size, *values.shape[1:]).index_add(dim, index, values)

    return SimpleNamespace(scatter_max=scatter_max, scatter_sum=scatter_sum)


@pytest.mark.parametrize("installed", [True, False])
def test_torch_scatter_equals_torch(monkeypatch: pytest.MonkeyPatch, installed: bool) -> None:
    """Where values are gathered, as on a GPU, and not a sparse matrix multiplies."""
    module = pytest.importorskip("torch_scatter") if installed else stand_in()
    weights, values = random(6, 2), random(3, 2, 4, seed=1)
    for operation, leaves in (
        (lambda: segment_sum(values[SOURCE], INDEX, N), (values,)),
        (lambda: segment_softmax(weights, INDEX, N), (weights,)),
        (lambda: segment_weighted_sum(weights, values, SOURCE, INDEX, N), (weights, values)),
    ):
        one = operation()
        with monkeypatch.context() as patch:
            patch.setenv("GNN_ENCODER_SCATTER", "torch_scatter")
            patch.setitem(sys.modules, "torch_scatter", module)
            assert_same(operation(), one, leaves)


@pytest.mark.parametrize(
    ("name", "told"), [("pyg", "GNN_ENCODER_SCATTER is 'pyg'"), ("torch_scatter", "not installed")]
)
def test_a_missing_backend_is_told(monkeypatch: pytest.MonkeyPatch, name: str, told: str) -> None:
    monkeypatch.setenv("GNN_ENCODER_SCATTER", name)
    monkeypatch.setitem(sys.modules, "torch_scatter", None)
    with pytest.raises(UserError, match=told):
        segment_sum(torch.ones(2, 1), torch.tensor([0, 1]), 2)
