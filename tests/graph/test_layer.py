"""What the network asks of a layer, shown by the smallest one: the mean of a node's neighbours and itself."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gnn_encoder.graph import network
from gnn_encoder.graph.network import GNNConfig, QueryPassageGNN
from gnn_encoder.graph.segment import segment_sum, segment_weighted_sum
from gnn_encoder.mgt.start import Start, choose_start


class Mean(nn.Module):
    """The mean of a node's neighbours and itself. It has no weights, and looks at neither features nor labels."""

    b_l: nn.Parameter | None = None  # it looks at no labels

    def __init__(self, *, dimension: int, heads: int, edge_dimension: int | None, typed: bool = False) -> None:
        super().__init__()

    def alone(self, target: Tensor) -> Tensor:
        """A node without neighbours is its own mean. *Shape:* (n, d) -> (n, d)."""
        return target

    def dense(
        self,
        target: Tensor,
        sources: Tensor,
        edge_features: Tensor | None = None,
        loop_features: Tensor | None = None,
        keep: Tensor | None = None,
        *,
        product: bool = False,
    ) -> Tensor:
        """*Shape:* (b, d), (b, k, d) -> (b, d)."""
        kept = sources.new_ones(sources.shape[:2]) if keep is None else keep.to(sources.dtype)
        return (target + (kept.unsqueeze(2) * sources).sum(1)) / (1 + kept.sum(1, keepdim=True))

    def ragged(
        self,
        target: Tensor,
        sources: Tensor,
        edge_source: Tensor,
        edge_target: Tensor,
        edge_features: Tensor | None = None,
        loop_features: Tensor | None = None,
        labelled: Tensor | None = None,
    ) -> Tensor:
        """*Shape:* (n, d), (s, d), (E,), (E,) -> (n, d)."""
        alpha = self.weights(target, sources, edge_source, edge_target)
        n, nodes = len(target), torch.arange(len(target))
        values = torch.cat([sources, target]).unsqueeze(1)  # one head
        from_rows = torch.cat([edge_source, len(sources) + nodes])
        return segment_weighted_sum(alpha, values, from_rows, torch.cat([edge_target, nodes]), n).squeeze(1)

    def weights(
        self,
        target: Tensor,
        sources: Tensor,
        edge_source: Tensor,
        edge_target: Tensor,
        edge_features: Tensor | None = None,
        loop_features: Tensor | None = None,
        labelled: Tensor | None = None,
    ) -> Tensor:
        """Alike for all neighbours: first of the edges, then of the self-loops. *Shape:* (E + n, 1)."""
        targets = torch.cat([edge_target, torch.arange(len(target))])
        alike = target.new_ones(len(targets), 1)
        return alike / segment_sum(alike, targets, len(target)).index_select(0, targets)


D, N, M = 4, 2, 3
EDGE_QUERY, EDGE_PASSAGE = torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1])  # nobody retrieved passage 2
LABELLED = torch.tensor([1.0, 0.0, 0.0])
H_Q = torch.arange(N * D, dtype=torch.float32).view(N, D)
H_P = 10 * torch.arange(M * D, dtype=torch.float32).view(M, D)


@pytest.fixture
def gnn(monkeypatch: pytest.MonkeyPatch) -> QueryPassageGNN:
    """The network with that layer in both places, for a graph with labelled edges."""
    monkeypatch.setattr(network, "GraphAttention", Mean)
    return QueryPassageGNN(
        GNNConfig(
            dimension=D,
            edge_dimension=None,
            layers=2,
            heads=2,
            gate="learned",
            edge_features="product",
            graph="full",
            labelled=True,
            similarity="dot",
        )
    )


def inform(gnn: QueryPassageGNN) -> Tensor:
    return gnn.interactive_passages(H_P, H_Q, EDGE_QUERY, EDGE_PASSAGE, h_q=H_Q, labelled=LABELLED)


def test_dense_and_ragged_are_one_function() -> None:
    layer = Mean(dimension=D, heads=1, edge_dimension=None)
    target, sources = torch.randn(2, D), torch.randn(5, D)
    keep = torch.tensor([[True, True, False], [True, True, True]])
    rows = torch.tensor([[0, 1, 2], [4, 2, 3]])
    ragged = layer.ragged(target, sources, rows[keep], torch.tensor([0, 0, 1, 1, 1]))
    torch.testing.assert_close(layer.dense(target, sources[rows], keep=keep), ragged)
    none = torch.zeros(0, dtype=torch.int64)
    torch.testing.assert_close(layer.ragged(target, sources, none, none), layer.alone(target))


def test_the_network_by_hand(gnn: QueryPassageGNN) -> None:
    half = (H_Q + (H_Q + H_P[:2]) / 2) / 2  # W_pq starts as [I/2 | I/2]
    torch.testing.assert_close(gnn.interactive_queries(H_Q, H_P[:2].unsqueeze(1)), half)
    means = torch.stack([(H_P[0] + H_Q[0]) / 2, (H_P[1] + H_Q[0] + H_Q[1]) / 3, H_P[2]])
    torch.testing.assert_close(inform(gnn), H_P + torch.sigmoid(torch.tensor(-2.0)) * means)


def test_what_it_tells_of_its_attention(gnn: QueryPassageGNN) -> None:
    attention, gate = gnn.explain(H_P, H_Q, EDGE_QUERY, EDGE_PASSAGE, h_q=H_Q, labelled=LABELLED)
    torch.testing.assert_close(attention, torch.tensor([1 / 2, 1 / 3, 1 / 3, 1 / 2, 1 / 3, 1]))
    torch.testing.assert_close(gate, torch.sigmoid(torch.tensor([-2.0, -2.0, -2.0])))


def test_it_trains_from_the_best_start_and_is_saved(gnn: QueryPassageGNN, tmp_path: Path) -> None:
    def reciprocal_ranks() -> NDArray[np.float64]:
        return np.full(50, 0.7 if gnn.gate.bias[0] == 2 else 0.5)

    assert choose_start(gnn, reciprocal_ranks) == Start(gate=2.0, label=0.0, mix=0.5)
    assert gnn.gate.bias.tolist() == [2.0] * D
    assert [len(group["params"]) for group in gnn.groups(1e-3)] == [4, 1], "w_l learns at a rate of its own"
    inform(gnn).sum().backward()
    assert all(parameter.grad is not None for parameter in gnn.gate.parameters())
    gnn.save(tmp_path)
    assert torch.equal(inform(QueryPassageGNN.load(tmp_path, dimension=D)), inform(gnn))
