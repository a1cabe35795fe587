"""Eq. 3-5 against a plain loop and against PyG's GATConv: values and gradients of parameters and inputs."""

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from gnn_encoder.gnn.attention import GraphAttention

from .oracle import assert_same, gat, random

D, HEADS, D_E = 6, 3, 4
# A small literal graph: 3 targets, 4 sources. Target 1 has no edges.
SOURCE = torch.tensor([0, 2, 3, 1, 3])
TARGET = torch.tensor([0, 0, 0, 2, 2])


def layer(edge_dimension: int | None = D_E, *, typed: bool = False) -> GraphAttention:
    module = GraphAttention(dimension=D, heads=HEADS, edge_dimension=edge_dimension, typed=typed).double()
    with torch.no_grad():
        for seed, parameter in enumerate(module.parameters()):
            parameter.copy_(random(*parameter.shape, seed=100 + seed))
    return module


def row(features: Tensor | None, *place: int) -> Tensor | None:
    return None if features is None else features[place]


@pytest.mark.parametrize("edge_dimension", [D_E, None])
@pytest.mark.parametrize("typed", [False, True])
def test_ragged_equals_a_loop(edge_dimension: int | None, typed: bool) -> None:
    module, target, sources = layer(edge_dimension, typed=typed), random(3, D, seed=1), random(4, D, seed=2)
    edges = random(5, D_E, seed=3) if edge_dimension else None
    loops = random(3, D_E, seed=4) if edge_dimension else None
    types = torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0], dtype=torch.float64) if typed else torch.zeros(5)
    oracle = []
    for i in range(3):
        mine = [e for e in range(5) if TARGET[e] == i]
        neighbours = [(sources[SOURCE[e]], row(edges, e)) for e in mine] + [(target[i], row(loops, i))]
        oracle.append(gat(module, target[i], neighbours, [*(bool(types[e]) for e in mine), False]))
    leaves = [*module.parameters(), target, sources] + ([edges, loops] if edge_dimension else [])
    read = None if edges is None or loops is None else (edges, loops), types if typed else None
    ours, alpha = module.ragged(target, sources, SOURCE, TARGET, *read)
    assert_same(ours, torch.stack(oracle), leaves)
    # Summing W_s h_j by the attention gives the same, and a target's attention is 1 in each head.
    assert alpha[5 + 1].tolist() == [1.0] * HEADS, "target 1 has no edges"
    values = (torch.cat([sources[SOURCE], target]) @ module.W_s.T).view(8, HEADS, -1) * alpha.unsqueeze(2)
    to = torch.cat([TARGET, torch.arange(3)])
    torch.testing.assert_close(torch.zeros_like(ours).index_add(0, to, values.flatten(1)), ours)
    torch.testing.assert_close(torch.zeros(3, HEADS).double().index_add(0, to, alpha), torch.ones(3, HEADS).double())
    # Sources that no edge reads change nothing.
    more = torch.cat([random(9, D, seed=5), sources])
    pruned = module.ragged(target, more, SOURCE + 9, TARGET, *read)[0]
    assert_same(pruned, module.ragged(target, sources, SOURCE, TARGET, *read)[0], leaves)


@pytest.mark.parametrize("edge_dimension", [D_E, None])
@pytest.mark.parametrize("masked", [False, True])
def test_dense_equals_a_loop(edge_dimension: int | None, masked: bool) -> None:
    module, target, sources = layer(edge_dimension), random(2, D, seed=1), random(2, 3, D, seed=2)
    edges = random(2, 3, D_E, seed=3) if edge_dimension else None
    loops = random(2, D_E, seed=4) if edge_dimension else None
    keep = torch.tensor([[True, False, True], [False, False, False]]) if masked else None
    oracle = []
    for i in range(2):
        mine = [j for j in range(3) if keep is None or keep[i, j]]
        neighbours = [(sources[i, j], row(edges, i, j)) for j in mine] + [(target[i], row(loops, i))]
        oracle.append(gat(module, target[i], neighbours))
    leaves = [*module.parameters(), target, sources] + ([edges, loops] if edge_dimension else [])
    features = None if edges is None or loops is None else (edges, loops)
    assert_same(module.dense(target, sources, features, keep), torch.stack(oracle), leaves)


@pytest.mark.parity
@pytest.mark.parametrize("form", ["dense", "ragged"])
def test_equals_gatconv(form: str) -> None:
    GATConv = pytest.importorskip("torch_geometric.nn").GATConv
    module, target, sources = layer(), random(3, D, seed=1), random(6, D, seed=2)
    edges, loops, loop = random(6, D_E, seed=3), random(3, D_E, seed=4), torch.arange(3)
    if form == "dense":
        source, to = torch.arange(6), torch.tensor([0, 0, 1, 1, 2, 2])
        ours = module.dense(target, sources.view(3, 2, D), (edges.view(3, 2, D_E), loops))
    else:
        source, to = torch.tensor([5, 0, 3, 0, 1, 1]), torch.tensor([0, 0, 0, 0, 2, 2])
        ours, _ = module.ragged(target, sources, source, to, (edges, loops))
    conv = GATConv((D, D), D // HEADS, HEADS, edge_dim=D_E, add_self_loops=False, bias=False).double()
    weights = {"lin_dst.weight": module.W_t, "lin_src.weight": module.W_s, "lin_edge.weight": module.W_e}
    weights |= {f"att_{side}": module.a[:, part].unsqueeze(0) for part, side in enumerate(("dst", "src", "edge"))}
    index = torch.stack([torch.cat([source, 6 + loop]), torch.cat([to, loop])])
    nodes = torch.cat([sources, target]), target
    theirs = functional_call(conv, weights, (nodes, index, torch.cat([edges, loops])))
    assert_same(ours, theirs, [*module.parameters(), target, sources, edges, loops])


def test_a_node_without_edges_does_not_read_its_loop_feature() -> None:
    module, target, sources = layer(), random(3, D, seed=1), random(4, D, seed=2)
    edges, loops = random(5, D_E, seed=3), random(3, D_E, seed=4)
    other = loops.detach().clone()
    other[1] = 0
    one, two = (module.ragged(target, sources, SOURCE, TARGET, (edges, some))[0] for some in (loops, other))
    assert torch.equal(one[1], two[1])
    none = torch.empty(0, dtype=torch.int64)
    without, alpha = module.ragged(target, sources, none, none)
    dense = module.dense(target, sources[:0].view(3, 0, D), (torch.empty(3, 0, D_E).double(), loops))
    torch.testing.assert_close(without, dense, rtol=0, atol=1e-12)
    assert torch.equal(alpha, torch.ones(3, HEADS).double())
