"""Eq. 3-10 as plain loops, a node at a time, and how two results are compared."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gnn_encoder.gnn.attention import GraphAttention
from gnn_encoder.gnn.network import GNNConfig, QueryPassageGNN

Pair = tuple[int, int]  # a query and a passage


def network(**changes: Any) -> QueryPassageGNN:
    """A new one of four columns, without features."""
    config = {"dimension": 4, "edge_dimension": None, "layers": 2, "heads": 2, "gate": "learned", "labels": True}
    return QueryPassageGNN(GNNConfig(**{**config, "edge_features": "none", "similarity": "dot", **changes}))


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def assert_same(ours: Tensor, oracle: Tensor, leaves: Sequence[Any]) -> None:
    """Values and gradients, 1e-9; an input that plays no part has none on both sides."""
    torch.testing.assert_close(ours, oracle, rtol=0, atol=1e-9)
    upstream = torch.cos(torch.arange(ours.numel(), dtype=torch.float64)).view(ours.shape)
    for one, other in zip(
        torch.autograd.grad(ours, leaves, upstream, allow_unused=True, materialize_grads=True),
        torch.autograd.grad(oracle, leaves, upstream, allow_unused=True, materialize_grads=True),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


def gat(
    layer: GraphAttention,
    h_i: Tensor,
    neighbours: Sequence[tuple[Tensor, Any]],
    labelled: Sequence[bool] | None = None,
) -> Tensor:
    """Eq. 3-5 as they stand, for one node; b_l is added to the logits of labelled neighbours."""
    outputs, heads = list[Any](), layer.heads
    types = [False] * len(neighbours) if labelled is None else labelled
    for b_l, a, W_t, W_s, W_e in zip(
        [0.0] * heads if layer.b_l is None else layer.b_l,
        layer.a,
        layer.W_t.chunk(heads),
        layer.W_s.chunk(heads),
        [None] * heads if layer.W_e is None else layer.W_e.chunk(heads),
        strict=True,
    ):
        logits = []
        for (h_j, h_ij), is_labelled in zip(neighbours, types, strict=True):
            parts = [W_t @ h_i, W_s @ h_j] + ([] if W_e is None else [W_e @ h_ij])
            logits.append(torch.exp(F.leaky_relu(a.reshape(-1) @ torch.cat(parts) + b_l * is_labelled, 0.2)))
        outputs.append(sum(e / sum(logits) * (W_s @ h_j) for e, (h_j, _) in zip(logits, neighbours, strict=True)))
    return torch.cat(outputs)


def informed(
    gnn: QueryPassageGNN,
    x: Mapping[str, Tensor],
    read: Sequence[Collection[int]],
    heard: Sequence[Collection[int]],
    *,
    labelled: Collection[Pair] = (),
    summed: Collection[Pair] = (),
) -> Tensor:
    """Eq. 6-10: h'_p of all passages.

    Args:
        x: h_q, h_p and the cached h_p of Eq. 6; the cross-encoder's features: pairs *Shape:* (n, m, d_e), query_loops,
            passage_loops.
        read: the passages of each query in Eq. 6.
        heard: the queries of each passage in Eq. 8.
        labelled: edges that have the type.
        summed: labels that are summed up, whether they are edges or not.
    """
    c = gnn.config

    def feature(name: str, *place: int) -> Tensor | None:
        return x[name][place] if c.edge_features == "cross_encoder" else None

    h_q_prime = []
    for q, h in enumerate(x["h_q"]):
        if c.layers == 1:
            h_q_prime.append(h)
            continue
        neighbours = [(h, feature("query_loops", q))]
        for p in read[q]:
            neighbours.append((x["cached"][p], feature("pairs", q, p)))
        gathered = gat(gnn.query_attention, h, neighbours)  # Eq. 6
        h_q_prime.append(gnn.combine.weight @ torch.cat([gathered, h]) + gnn.combine.bias)  # Eq. 7
    result = []
    for p, h in enumerate(x["h_p"]):
        queries = heard[p]
        types = [(q, p) in labelled for q in queries]
        neighbours = [(h_q_prime[q], feature("pairs", q, p)) for q in queries]
        loop = (h, feature("passage_loops", p))
        gathered = gat(gnn.passage_attention, h, [*neighbours, loop], [*types, False])  # Eq. 8
        f: Any = c.gate
        if c.gate == "learned":
            logits = gnn.gate.weight @ torch.cat([gathered, h]) + gnn.gate.bias
            if gnn.w_l is not None and any(types):
                logits = logits + gnn.w_l
            f = 1 / (1 + torch.exp(-logits))  # Eq. 9
        own = f * gathered + (gnn.W_p @ h if c.labels else h)  # Eq. 10
        asking = [x["h_q"][q] for q, asked in summed if asked == p]
        if c.labels and asking:
            own = own + len(asking) ** (-gnn.exponent) * (gnn.W_l @ (gnn.A @ sum(asking)))
        result.append(own / (own @ own) ** 0.5 if c.similarity == "cosine" else own)
    return torch.stack(result)
