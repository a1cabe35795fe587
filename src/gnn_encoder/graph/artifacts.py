"""The query-passage graph as the pipeline's artifacts hold it."""

from gnn_encoder import project
from gnn_encoder.encoders.device import device
from gnn_encoder.graph.features import EdgeFeatures, open_features
from gnn_encoder.graph.neighbourhood import Neighbourhood
from gnn_encoder.graph.structure import Graph
from gnn_encoder.judgements import Rows, pair_keys, relevant_pairs
from gnn_encoder.storage.arrays import open_matrix
from gnn_encoder.storage.tables import count_rows, read_candidates


def open_graph() -> Graph:
    """The query-passage graph of `build_graph`."""
    edges = read_candidates(project.GRAPH / "edges.parquet")
    return Graph.from_edges(edges, count_rows(project.queries("train")), count_rows(project.PASSAGES))


def open_graph_features(graph: Graph) -> EdgeFeatures:
    """Its cross-encoder features."""
    return open_features(project.EDGE_FEATURES, graph.n * graph.k, graph.n, graph.m)


def open_neighbourhood(
    graph: Graph,
    features: EdgeFeatures | None,
    *,
    labelled_edges: bool,
    max_neighbours: int | None,
    self_loops_only: bool,
) -> Neighbourhood:
    """The graph with its cached passages and features; without labelled edges where those are to be dropped."""
    return Neighbourhood(
        graph,
        open_matrix(project.embeddings("dual_encoder")),
        features,
        keep_edge=None if labelled_edges else ~graph.labelled_edges(_known_pairs(graph)),
        max_neighbours=max_neighbours,
        self_loops_only=self_loops_only,
        device=device(),
    )


def _known_pairs(graph: Graph) -> Rows:
    pairs = relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES)
    return pair_keys(pairs, graph.m)
