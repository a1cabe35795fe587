"""The query-passage graph as the pipeline's artifacts hold it."""

from gnn_encoder.core import project
from gnn_encoder.core.judgements import Rows, pair_keys, relevant_pairs
from gnn_encoder.core.project import GNNSystem
from gnn_encoder.core.storage.arrays import open_matrix
from gnn_encoder.core.storage.tables import count_rows, read_candidates
from gnn_encoder.encoders.device import device
from gnn_encoder.graph.features import EdgeFeatures, open_features
from gnn_encoder.graph.neighbourhood import Neighbourhood
from gnn_encoder.graph.nodes import Nodes
from gnn_encoder.graph.structure import Graph


def open_graph(system: GNNSystem, nodes: Nodes) -> Graph:
    """The query-passage graph of `build_graph`, each question's passages of rank below `system.k`."""
    edges = read_candidates(system.graph / "edges.parquet")
    near = edges["rank"] < system.k
    return Graph.from_edges(
        {name: column[near] for name, column in edges.items()}, len(nodes), count_rows(project.PASSAGES)
    )


def open_graph_features(system: GNNSystem, graph: Graph) -> EdgeFeatures:
    """The cross-encoder features of its edges."""
    built = count_rows(system.graph / "edges.parquet")
    return open_features(system.edge_features, built, graph.n, graph.m, k=graph.k)


def open_neighbourhood(
    system: GNNSystem,
    nodes: Nodes,
    *,
    edge_features: str,
    labelled_edges: bool,
    max_neighbours: int | None,
    self_loops_only: bool,
) -> Neighbourhood:
    """The graph with its cached passages and features; without labelled edges where those are to be dropped.

    A generated question counts as labelled with the passage it was made from.
    """
    graph = open_graph(system, nodes)
    return Neighbourhood(
        graph,
        open_matrix(project.embeddings(system.base)),
        open_graph_features(system, graph) if edge_features == "cross_encoder" else None,
        keep_edge=None if labelled_edges else ~graph.labelled_edges(_labelled_keys(graph, nodes)),
        max_neighbours=max_neighbours,
        self_loops_only=self_loops_only,
        device=device(),
    )


def _labelled_keys(graph: Graph, nodes: Nodes) -> Rows:
    pairs = relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES)
    return pair_keys(nodes.labelled_pairs(pairs), graph.m)
