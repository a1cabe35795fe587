"""The graph as a network reads it: which edges count as labelled, which are left out."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from gnn_encoder.gnn.graph import Graph, Labels
from gnn_encoder.gnn.neighbourhood import NOBODY, Neighbourhood
from gnn_encoder.gnn.network import GNNConfig, QueryPassageGNN

# Queries 0 and 1 are training queries, 2 and 3 have no labels.
EDGES = [(0, 0), (0, 1), (1, 1), (1, 2), (2, 0), (2, 2), (3, 2), (3, 0)]
PAIRS = {"query": pl.Int32, "passage": pl.Int32}
GRAPH = Graph(passages=np.array(EDGES)[:, 1].reshape(4, 2), score=np.full(8, 0.5), n_passages=3)
JUDGED = pl.DataFrame({"query": [0, 1], "passage": [1, 1]}, schema=PAIRS)


def neighbourhood(judged: pl.DataFrame = JUDGED, *, sums: bool = False) -> Neighbourhood:
    return Neighbourhood(GRAPH, np.eye(3, 4, dtype=np.float16), None, Labels(judged, 3), sums=sums)


NO_LABELS = {"label_query": NOBODY, "label_passage": NOBODY}


def network(**changes: Any) -> QueryPassageGNN:
    config = {"dimension": 4, "edge_dimension": None, "layers": 2, "heads": 2, "gate": "learned", "labels": True}
    return QueryPassageGNN(GNNConfig(**{**config, "edge_features": "none", "similarity": "dot", **changes}))


def edges_into(near: Neighbourhood) -> list[tuple[int, int]]:
    return sorted(EDGES[edge] for edge in near.around(np.arange(3)).edges.tolist())


def test_edges_of_labelled_queries_have_a_type() -> None:
    near = neighbourhood()
    assert [edge for edge, labelled in zip(EDGES, near.labelled, strict=True) if labelled] == [(0, 1), (1, 1)]
    assert edges_into(near) == sorted(EDGES)


def test_some_pairs_are_left_out() -> None:
    pairs = pl.DataFrame({"query": [1, 2, 3], "passage": [2, 0, 1]}, schema=PAIRS)  # the last is no edge
    near = neighbourhood(sums=True).without(pairs)
    assert edges_into(near) == sorted(set(EDGES) - {(1, 2), (2, 0)})
    assert len(near.around(np.arange(3)).label_query) == 0, "no sums of labels that training must not see"


def test_all_labels_are_summed_up_but_those_of_masked_queries() -> None:
    """Also those that are no edge of the graph."""
    judged = pl.DataFrame({"query": [0, 0, 1], "passage": [1, 2, 2]}, schema=PAIRS)
    near, gnn = neighbourhood(judged, sums=True), network()
    with torch.no_grad():
        gnn.W_l.copy_(torch.eye(4))
    passages, h_q = np.arange(3), torch.from_numpy(np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32))
    for propagation, expected in ((None, {1: [0], 2: [0, 1]}), (np.array([False, True, True, True]), {2: [1]})):
        subgraph = near.around(passages, propagation)
        found: dict[int, list[int]] = {}
        for query, passage in zip(subgraph.queries[subgraph.label_query], subgraph.label_passage, strict=True):
            found.setdefault(int(passage), []).append(int(query))
        assert found == expected
        read = near.passage_embeddings(passages), h_q[subgraph.queries], h_q[subgraph.queries]
        with torch.no_grad():
            plain = near.interactive_passages(gnn, replace(subgraph, **NO_LABELS), *read).embeddings
            summed = near.interactive_passages(gnn, subgraph, *read).embeddings
        sums = {p: h_q[queries].sum(dim=0) / len(queries) ** 0.5 for p, queries in expected.items()}
        added = torch.stack([sums.get(row, torch.zeros(4)) for row in range(3)])
        torch.testing.assert_close(summed - plain, added, rtol=0, atol=1e-6)


def test_queries_are_informed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnn_encoder.gnn.neighbourhood.QUERIES_AT_A_TIME", 3)
    near, gnn, queries = neighbourhood(), network(), np.array([3, 1, 0, 2])
    whole = near.interactive_queries(gnn, queries, torch.eye(4))  # where gradients are kept, there is one part
    with torch.no_grad():
        torch.testing.assert_close(near.interactive_queries(gnn, queries, torch.eye(4)), whole)
