"""Eq. 3-5 against a plain loop and against PyG's GATConv: values and gradients of parameters and inputs."""

import pytest
import torch
from torch import Tensor

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
    ours = module.ragged(target, sources, SOURCE, TARGET, edges, loops, types if typed else None)
    assert_same(ours, torch.stack(oracle), leaves)


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
    assert_same(module.dense(target, sources, edges, loops, keep), torch.stack(oracle), leaves)


def test_types_are_for_layers_that_have_them() -> None:
    target, sources = random(3, D, seed=1), random(4, D, seed=2)
    with pytest.raises(ValueError, match="labelled"):
        layer(None).ragged(target, sources, SOURCE, TARGET, labelled=torch.ones(5, dtype=torch.float64))
    with pytest.raises(ValueError, match="labelled"):
        layer(None, typed=True).ragged(target, sources, SOURCE, TARGET)


def test_dense_equals_ragged_on_one_graph() -> None:
    module, target, sources = layer(), random(2, D, seed=1), random(2, 3, D, seed=2)
    edges, loops = random(2, 3, D_E, seed=3), random(2, D_E, seed=4)
    ragged = module.ragged(
        target,
        sources.view(6, D),
        torch.arange(6),
        torch.tensor([0, 0, 0, 1, 1, 1]),
        edges.view(6, D_E),
        loops,
    )
    dense = module.dense(target, sources, edges, loops)
    assert_same(dense, ragged, [*module.parameters(), target, sources, edges, loops])


def test_product_features_equal_those_that_are_made() -> None:
    module, target, sources = layer(D), random(2, D, seed=1), random(2, 3, D, seed=2)
    made = module.dense(target, sources, target.unsqueeze(1) * sources, target * target)
    assert_same(module.dense(target, sources, product=True), made, [*module.parameters(), target, sources])


@pytest.mark.parity
@pytest.mark.parametrize("form", ["dense", "ragged"])
def test_equals_gatconv(form: str) -> None:
    GATConv = pytest.importorskip("torch_geometric.nn").GATConv
    module, target, sources = layer(), random(3, D, seed=1), random(6, D, seed=2)
    source, to = torch.tensor([0, 1, 2, 3, 4, 5]), torch.tensor([0, 0, 1, 1, 2, 2])
    if form == "ragged":
        source, to = torch.tensor([5, 0, 3, 0, 1, 1]), torch.tensor([0, 0, 0, 0, 2, 2])
    edges, loops = random(6, D_E, seed=3), random(3, D_E, seed=4)
    conv = GATConv((D, D), D // HEADS, HEADS, edge_dim=D_E, add_self_loops=False, bias=False).double()
    ours = [module.W_t, module.W_s, module.W_e, module.a]
    with torch.no_grad():
        for linear, weight in zip((conv.lin_dst, conv.lin_src, conv.lin_edge), ours[:3], strict=True):
            linear.weight.copy_(weight)
        for part, attention in enumerate((conv.att_dst, conv.att_src, conv.att_edge)):
            attention.copy_(module.a[:, part].unsqueeze(0))
    loop = torch.arange(3)
    index = torch.stack([torch.cat([source, 6 + loop]), torch.cat([to, loop])])
    theirs = conv((torch.cat([sources, target]), target), index, torch.cat([edges, loops]))
    if form == "dense":
        result = module.dense(target, sources.view(3, 2, D), edges.view(3, 2, D_E), loops)
    else:
        result = module.ragged(target, sources, source, to, edges, loops)
    torch.testing.assert_close(result, theirs, rtol=0, atol=1e-9)
    upstream = torch.cos(torch.arange(result.numel(), dtype=torch.float64)).view(result.shape)
    inputs = [target, sources, edges, loops]
    their_parameters = [conv.lin_dst.weight, conv.lin_src.weight, conv.lin_edge.weight]
    attentions = [conv.att_dst, conv.att_src, conv.att_edge]
    mine = torch.autograd.grad(result, ours + inputs, upstream)
    other = torch.autograd.grad(theirs, their_parameters + attentions + inputs, upstream)
    expected = [*other[:3], torch.cat(other[3:6]).transpose(0, 1), *other[6:]]
    for one, two in zip(mine, expected, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-9)


def test_a_node_without_edges_does_not_read_its_loop_feature() -> None:
    module, target, sources = layer(), random(3, D, seed=1), random(4, D, seed=2)
    edges, loops = random(5, D_E, seed=3), random(3, D_E, seed=4)
    other = loops.detach().clone()
    other[1] = 0  # target 1 has no edges
    one = module.ragged(target, sources, SOURCE, TARGET, edges, loops)
    two = module.ragged(target, sources, SOURCE, TARGET, edges, other)
    assert torch.equal(one, two)
    torch.testing.assert_close(one[1], module.W_s @ target[1], rtol=0, atol=1e-12)


def test_no_edges_at_all_needs_no_loop_features() -> None:
    module, target, sources = layer(), random(3, D, seed=1), random(4, D, seed=2)
    none = torch.empty(0, dtype=torch.int64)
    without = module.ragged(target, sources, none, none)
    with_features = module.dense(
        target, sources[:0].view(3, 0, D), torch.empty(3, 0, D_E).double(), random(3, D_E, seed=4)
    )
    torch.testing.assert_close(without, with_features, rtol=0, atol=1e-12)


def test_sources_that_no_edge_reads_change_nothing() -> None:
    module, target, sources = layer(), random(3, D, seed=1), random(4, D, seed=2)
    edges, loops, extra = random(5, D_E, seed=3), random(3, D_E, seed=4), random(9, D, seed=5)
    more = torch.cat([extra, sources])
    assert_same(
        module.ragged(target, more, SOURCE + 9, TARGET, edges, loops),
        module.ragged(target, sources, SOURCE, TARGET, edges, loops),
        [*module.parameters(), target, sources, edges, loops],
    )


def test_features_may_have_sixteen_bits() -> None:
    module, target, sources = layer().float(), random(2, D, seed=1).float(), random(2, 3, D, seed=2).float()
    edges, loops = random(2, 3, D_E, seed=3).half(), random(2, D_E, seed=4).half()
    wide = module.dense(target, sources, edges.float(), loops.float())
    assert torch.equal(module.dense(target, sources, edges, loops), wide)


def test_it_starts_as_plain_embeddings() -> None:
    module = GraphAttention(dimension=D, heads=HEADS, edge_dimension=D_E)
    assert torch.equal(module.W_s, torch.eye(D))
    assert module.a.shape == (HEADS, 3, D // HEADS)


def test_missing_features_are_told() -> None:
    module, target, sources = layer(), random(2, D, seed=1), random(2, 3, D, seed=2)
    with pytest.raises(ValueError, match="takes edge features of 4 columns"):
        module.dense(target, sources)
    with pytest.raises(ValueError, match="or neither"):
        module.dense(target, sources, random(2, 3, D_E, seed=3))
    with pytest.raises(ValueError, match="takes no edge features"):
        layer(None).dense(target, sources, product=True)


@pytest.mark.parametrize("edge_dimension", [D_E, None])
def test_weights_are_those_of_the_sum(edge_dimension: int | None) -> None:
    """They sum to 1 a target and head; summing W_s h_j with them gives what `ragged` gives."""
    module, target, sources = layer(edge_dimension), random(3, D, seed=1), random(4, D, seed=2)
    edges = random(5, D_E, seed=3) if edge_dimension else None
    loops = random(3, D_E, seed=4) if edge_dimension else None
    weights = module.weights(target, sources, SOURCE, TARGET, edges, loops)
    assert weights.shape == (8, HEADS)
    to = torch.cat([TARGET, torch.arange(3)])
    torch.testing.assert_close(torch.zeros(3, HEADS).double().index_add(0, to, weights), torch.ones(3, HEADS).double())
    assert weights[5 + 1].tolist() == [1.0] * HEADS, "target 1 has no edges"
    nodes = torch.cat([sources[SOURCE], target])
    for head in range(HEADS):
        rows = slice(head * D // HEADS, (head + 1) * D // HEADS)
        values = weights[:, head : head + 1] * (nodes @ module.W_s[rows].T)
        summed = torch.zeros(3, D // HEADS).double().index_add(0, to, values)
        torch.testing.assert_close(summed, module.ragged(target, sources, SOURCE, TARGET, edges, loops)[:, rows])
