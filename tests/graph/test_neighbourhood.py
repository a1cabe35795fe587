"""The graph as a network reads it: which edges count as labelled, which are left out."""

import numpy as np
import polars as pl

from gnn_encoder.graph.neighbourhood import GraphData, Neighbourhood
from gnn_encoder.graph.network import GNNConfig
from gnn_encoder.graph.nodes import Nodes
from gnn_encoder.graph.structure import Graph

# Nodes: training queries 0 and 1, query 2 without labels, query 3 that was generated from passage 2.
EDGES = [(0, 0), (0, 1), (1, 1), (1, 2), (2, 0), (2, 2), (3, 2), (3, 0)]
PAIRS = {"query": pl.Int32, "passage": pl.Int32}
DATA = GraphData(
    graph=Graph(passages=np.array(EDGES)[:, 1].reshape(4, 2), score=np.full(8, 0.5), n_passages=3),
    nodes=Nodes(training=2, sources=np.array([-1, 2], dtype=np.int32)),
    judged=pl.DataFrame({"query": [0, 1, 2], "passage": [1, 1, 2]}, schema=PAIRS),  # the last is of no training query
    cached=np.eye(3, 4, dtype=np.float16),
    features=None,
)


def config(*, graph: str = "full", labelled: bool = True) -> GNNConfig:
    return GNNConfig(
        dimension=4,
        edge_dimension=None,
        layers=2,
        heads=2,
        gate="learned",
        edge_features="none",
        graph=graph,
        labelled=labelled,
        similarity="cosine",
    )


def edges_into(near: Neighbourhood) -> list[tuple[int, int]]:
    return sorted(EDGES[edge] for edge in near.around(np.arange(3)).edges.tolist())


def test_a_generated_query_labels_nothing() -> None:
    """Where each passage has generated queries, each would be a labelled one, and the type would say nothing."""
    near = DATA.neighbourhood(config())
    assert near.labelled is not None
    assert [edge for edge, labelled in zip(EDGES, near.labelled, strict=True) if labelled] == [(0, 1), (1, 1)]
    assert edges_into(near) == sorted(EDGES)
    assert DATA.neighbourhood(config(labelled=False)).labelled is None


def test_without_labelled_edges_a_generated_query_loses_its_passage_too() -> None:
    left = sorted(set(EDGES) - {(0, 1), (1, 1), (3, 2)})
    assert edges_into(DATA.neighbourhood(config(), labelled_edges=False)) == left


def test_further_pairs_are_left_out_with_the_generated_queries_passages() -> None:
    pairs = pl.DataFrame({"query": [1, 2], "passage": [2, 0]}, schema=PAIRS)
    left = sorted(set(EDGES) - {(1, 2), (3, 2)})
    assert edges_into(DATA.neighbourhood(config(), without=pairs)) == left


def test_self_loops_only() -> None:
    assert edges_into(DATA.neighbourhood(config(graph="self_loops"))) == []
