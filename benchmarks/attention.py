"""One GAT layer, forward and backward: ours (dense layer 1, ragged layer 2) against PyG's GATConv.

Same graph, heads, features and weights, self-loops included; outputs and gradients must agree. Both sides start from
the embeddings of all passages and queries, so our dense form pays for gathering each query's passages.

    python benchmarks/attention.py --threads 2
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import harness
import numpy as np
import torch
from torch import Tensor
from torch_geometric.nn import GATConv

from gnn_encoder.gnn.attention import GraphAttention

Forward = Callable[[], Tensor]


@dataclass(frozen=True)
class Case:
    """A layer on a graph, ours and the peer's."""

    name: str
    ours: Forward
    pyg: Forward
    leaves: dict[str, tuple[Tensor, Tensor]]  # what gradients are compared of: ours, the peer's


def random_graph(n_queries: int, k: int, n_passages: int, seed: int) -> Tensor:
    """Draw k distinct passages a query, a few of them popular. *Shape:* (n_queries, k) int64."""
    generator = np.random.default_rng(seed)
    weights = generator.permutation(1 / np.sqrt(1 + np.arange(n_passages)))
    rows = [generator.choice(n_passages, k, replace=False, p=weights / weights.sum()) for _ in range(n_queries)]
    return torch.from_numpy(np.stack(rows).astype(np.int64))


def peer(layer: GraphAttention, device: torch.device) -> GATConv:
    """PyG's layer with our layer's weights."""
    d, heads = layer.dimension, layer.heads
    conv = GATConv((d, d), d // heads, heads, edge_dim=layer.edge_dimension, add_self_loops=False, bias=False)
    with torch.no_grad():
        conv.lin_dst.weight.copy_(layer.W_t)
        conv.lin_src.weight.copy_(layer.W_s)
        conv.lin_edge.weight.copy_(layer.W_e)
        for part, name in enumerate(("att_dst", "att_src", "att_edge")):
            getattr(conv, name).copy_(layer.a[:, part].unsqueeze(0))
    return conv.to(device)


def parameter_pairs(layer: GraphAttention, conv: GATConv) -> dict[str, tuple[Tensor, Tensor]]:
    assert layer.W_e is not None
    return {
        "W_t": (layer.W_t, conv.lin_dst.weight),
        "W_s": (layer.W_s, conv.lin_src.weight),
        "W_e": (layer.W_e, conv.lin_edge.weight),
    }


def dense_case(layer: GraphAttention, passages: Tensor, h_q: Tensor, h_p: Tensor, features: Tensor) -> Case:
    """Layer 1: a query gathers its passages."""
    conv, (n, k), m = peer(layer, h_q.device), passages.shape, len(h_p)
    theirs = h_q.detach().clone().requires_grad_()
    queries = torch.arange(n, device=h_q.device)
    edge_index = torch.stack(
        [torch.cat([passages.reshape(-1), m + queries]), torch.cat([queries.repeat_interleave(k), queries])]
    )
    edges, loops = features[: n * k].view(n, k, -1), features[n * k : n * k + n]
    both = torch.cat([features[: n * k], loops])
    return Case(
        f"layer 1, dense: {n} queries x ({k} passages + itself)",
        lambda: layer.dense(h_q, h_p[passages], (edges, loops)),
        lambda: conv((torch.cat([h_p, theirs]), theirs), edge_index, both),
        {**parameter_pairs(layer, conv), "h_q": (h_q, theirs)},
    )


def ragged_case(layer: GraphAttention, passages: Tensor, h_q: Tensor, h_p: Tensor, features: Tensor) -> Case:
    """Layer 2: a passage gathers the queries that retrieved it; passages that none retrieved are left out."""
    conv, (n, k), device = peer(layer, h_q.device), passages.shape, h_q.device
    target, order = torch.sort(passages.reshape(-1), stable=True)
    source = order // k
    retrieved, target = torch.unique_consecutive(target, return_inverse=True)
    own = h_p[retrieved].requires_grad_()
    theirs_q, theirs_p = h_q.detach().clone().requires_grad_(), own.detach().clone().requires_grad_()
    nodes = torch.arange(len(own), device=device)
    edge_index = torch.stack([torch.cat([source, n + nodes]), torch.cat([target, nodes])])
    edges, loops = features[: n * k][order], features[n * k : n * k + len(own)]
    both = torch.cat([edges, loops])
    return Case(
        f"layer 2, ragged: {len(own)} passages, {n * k} edges + self-loops",
        lambda: layer.ragged(own, h_q, source, target, (edges, loops))[0],
        lambda: conv((torch.cat([theirs_q, theirs_p]), theirs_p), edge_index, both),
        {**parameter_pairs(layer, conv), "h_q": (h_q, theirs_q), "h_p": (own, theirs_p)},
    )


def agree(case: Case, tolerance: float = 1e-4) -> dict[str, float]:
    """Largest difference of outputs (absolute) and of gradients (relative to the largest); raises if too large."""
    ours, theirs = case.ours(), case.pyg()
    upstream = torch.randn_like(ours)
    differences = {"output": float((ours - theirs).detach().abs().max())}
    leaves = case.leaves
    our_gradients = torch.autograd.grad(ours, [pair[0] for pair in leaves.values()], upstream)
    their_gradients = torch.autograd.grad(theirs, [pair[1] for pair in leaves.values()], upstream)
    for name, one, other in zip(leaves, our_gradients, their_gradients, strict=True):
        differences[name] = float((one - other).abs().max() / other.abs().max())
    wrong = {name: value for name, value in differences.items() if not value < tolerance}
    if wrong:
        raise SystemExit(f"{case.name}: ours and PyG differ by {wrong}")
    return differences


def compare(case: Case, repeats: int) -> dict[str, Any]:
    """Medians of both sides, a forward and backward pass each time."""
    differences = agree(case)
    upstream = torch.randn_like(case.ours())

    def taken(forward: Forward) -> float:
        for leaf in (leaf for pair in case.leaves.values() for leaf in pair):
            leaf.grad = None
        return harness.seconds(lambda: forward().backward(upstream))

    sides = {"ours": partial(taken, case.ours), "pyg": partial(taken, case.pyg)}
    harness.take_turns(sides, 2)  # warms up
    ours, pyg = (1e3 * one for one in harness.medians(harness.take_turns(sides, repeats)).values())
    return {
        "case": case.name,
        "ours_ms": round(ours, 2),
        "pyg_ms": round(pyg, 2),
        "ratio": round(pyg / ours, 2),
        "largest_difference": differences,
    }


def main() -> None:
    parser = harness.parser("attention", __doc__)
    parser.add_argument("--k", type=int, default=25)
    parser.add_argument("--passages", type=int, default=27_413)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--seed", type=int, default=0)
    options = harness.parse(parser, queries=(2_000, 200), repeats=(7, 2))
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("--device is cuda: this machine has no CUDA device; leave the option out")
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    device, d, n_queries = torch.device(options.device), options.dimension, options.queries
    passages = random_graph(n_queries, options.k, options.passages, options.seed).to(device)
    h_q = torch.randn(n_queries, d, device=device).requires_grad_()
    h_p = torch.randn(options.passages, d, device=device)
    features = torch.randn(n_queries * options.k + max(n_queries, options.passages), d, device=device)
    rows = []
    print(f"{'forward and backward, float32':62} {'ours, ms':>9} {'PyG, ms':>9} {'ratio':>6}")
    for make in (dense_case, ragged_case):
        layer = GraphAttention(dimension=d, heads=options.heads, edge_dimension=d).to(device)
        row = compare(make(layer, passages, h_q, h_p, features), options.repeats)
        print(f"{row['case']:62} {row['ours_ms']:9} {row['pyg_ms']:9} {row['ratio']:6}")
        rows.append(row)
    met = min(row["ratio"] for row in rows) >= 4
    measured = (
        ", ".join(f"{row['case'].partition(',')[0]} {row['ratio']:.1f}x" for row in rows) + f" on {options.device}"
    )
    harness.finish(options, "at least 4x, both layers", met, measured, {"device": options.device, "rows": rows})


if __name__ == "__main__":
    main()
