"""The graph as a network reads it: which edges count as labelled, which are left out."""

from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from gnn_encoder.gnn.graph import Graph, Labels
from gnn_encoder.gnn.neighbourhood import Neighbourhood
from gnn_encoder.gnn.network import GNNConfig, QueryPassageGNN


def network(**changes: Any) -> QueryPassageGNN:
    config = {"dimension": 4, "edge_dimension": None, "layers": 2, "heads": 2, "gate": "learned", "labels": True}
    return QueryPassageGNN(GNNConfig(**{**config, "edge_features": "none", "similarity": "dot", **changes}))


@pytest.mark.parametrize("fewer", [False, True])
@pytest.mark.parametrize("masking", [False, True])
def test_what_informs_passages_equals_a_loop(masking: bool, fewer: bool) -> None:
    """Edges from the highest score on, and all labels, edges or not; where some pairs are left out, no labels."""
    draw, n, m, k = np.random.default_rng(0), 40, 30, 5
    passages = np.stack([draw.choice(m - 3, k, replace=False) for _ in range(n)])  # the last three have no queries
    graph = Graph(passages=passages, score=draw.integers(0, 4, (n, k)), n_passages=m)  # many ties
    pairs = pl.DataFrame({"query": draw.integers(n, size=60), "passage": draw.integers(m, size=60)}).unique()
    judged, without = set(pairs[:40].rows()), set(pairs[20:].rows()) if fewer else set()
    near = Neighbourhood(graph, np.zeros((m, 4)), None, Labels(pairs[:40], m), sums=True)
    near, masked = near.without(pairs[20:]) if fewer else near, set(range(0, n, 3)) if masking else set()
    asked = draw.choice(m, 25)
    around = near.around(asked, np.array([q not in masked for q in range(n)]) if masking else None)
    edges, labels = [], []
    for place, p in enumerate(asked.tolist()):
        mine = [e for e in range(n * k) if passages[e // k, e % k] == p and e // k not in masked]
        mine = [e for e in mine if (e // k, p) not in without]
        edges += [(e, e // k, place) for e in sorted(mine, key=lambda e: (-graph.score[e], e))]
        labels += [(q, place) for q in range(n) if (q, p) in judged and q not in masked and not fewer]
    of_edges = around.edges.tolist(), around.queries[around.edge_query].tolist(), around.edge_passage.tolist()
    of_labels = around.queries[around.label_query].tolist(), around.label_passage.tolist()
    assert list(zip(*of_edges, strict=True)) == edges and list(zip(*of_labels, strict=True)) == labels
    assert around.queries.tolist() == sorted({q for _, q, _ in edges} | {q for q, _ in labels}) and len(edges) > 50
    assert [e for e in range(n * k) if near.labelled[e]] == [
        e for e in range(n * k) if (e // k, passages[e // k, e % k]) in judged
    ]


def test_queries_are_informed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnn_encoder.gnn.neighbourhood.QUERIES_AT_A_TIME", 3)
    graph = Graph(passages=np.array([[0, 1], [1, 2], [0, 2], [2, 0]]), score=np.full(8, 0.5), n_passages=3)
    labels = Labels(pl.DataFrame({"query": [0, 1], "passage": [1, 1]}), 3)
    near = Neighbourhood(graph, np.eye(3, 4, dtype=np.float16), None, labels, sums=False)
    gnn, queries = network(), np.array([3, 1, 0, 2])
    whole = near.interactive_queries(gnn, queries, torch.eye(4))  # where gradients are kept, there is one part
    with torch.no_grad():
        torch.testing.assert_close(near.interactive_queries(gnn, queries, torch.eye(4)), whole)
