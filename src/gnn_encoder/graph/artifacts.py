"""Opening the query-passage graph from the artifacts of the pipeline."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.core.judgements import pair_keys, relevant_pairs
from gnn_encoder.core.storage.arrays import open_matrix
from gnn_encoder.core.storage.tables import count_rows, read_candidates
from gnn_encoder.graph.features import EdgeFeatures, open_features
from gnn_encoder.graph.neighbourhood import Neighbourhood
from gnn_encoder.graph.network import GNNConfig
from gnn_encoder.graph.nodes import NODES, Nodes, read_nodes
from gnn_encoder.graph.structure import Graph
from gnn_encoder.models.device import device
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.systems import registry


@dataclass(frozen=True, kw_only=True)
class GraphArtifacts:
    """A graph that the stage build_graph wrote.

    Attributes:
        name: a system of the group `graphs` of systems.yaml, or `widest`.
        k: keep only the first k passages of each query, in the order of `Graph.passages`; None: keep all.
    """

    name: str
    k: int | None = None

    @property
    def base(self) -> str:
        """The system that serves as M_de."""
        return registry().built[self.name].base

    @property
    def queries(self) -> Path:
        """Table of the queries that are nodes."""
        return project.graph(self.name) / NODES

    @property
    def edges(self) -> Path:
        """Table of the edges."""
        return project.graph(self.name) / "edges.parquet"

    def nodes(self) -> Nodes:
        """Which nodes are training queries, and which passages the generated ones come from."""
        return read_nodes(project.graph(self.name))

    def open(self) -> Graph:
        """The graph in memory."""
        edges = read_candidates(self.edges)
        if self.k is not None:
            near = edges["rank"] < self.k
            edges = {name: column[near] for name, column in edges.items()}
        return Graph.from_edges(edges, count_rows(self.queries), count_rows(project.PASSAGES))

    def open_features(self) -> EdgeFeatures:
        """M_ce's features of the edges."""
        counts = (count_rows(table) for table in (self.edges, self.queries, project.PASSAGES))
        return open_features(project.edge_features(self.name), *counts, k=self.k)


def open_neighbourhood(
    source: GraphArtifacts,
    *,
    edge_features: str,
    labelled_edges: bool,
    without: pl.DataFrame | None = None,
    max_neighbours: int | None,
    self_loops_only: bool,
    typed: bool,
) -> Neighbourhood:
    """The graph with M_de's passage embeddings and the edge features.

    Args:
        labelled_edges: False drops every edge between a query and a passage that it is labelled with, and between a
            generated query and the passage that it was generated from.
        without: further edges that are dropped, columns query (row of the training queries), passage.
        typed: whether the network tells labelled edges from others. Nobody has asked a generated query, so that its
            passage is not labelled by it: else every passage would be, and the type would say nothing.
    """
    graph, nodes = source.open(), source.nodes()
    judged = None
    if typed or not labelled_edges:
        pairs = relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES)
        judged = pairs.filter(pl.col("query") < nodes.training)
    dropped = [_edges_of(nodes.labelled_pairs(judged), graph)] if judged is not None and not labelled_edges else []
    if without is not None:
        dropped.append(_edges_of(nodes.labelled_pairs(without), graph))
    return Neighbourhood(
        graph,
        open_matrix(project.embeddings(source.base)),
        source.open_features() if edge_features == "cross_encoder" else None,
        keep_edge=~np.logical_or.reduce(dropped) if dropped else None,
        max_neighbours=max_neighbours,
        self_loops_only=self_loops_only,
        labelled=_edges_of(judged, graph) if judged is not None and typed else None,
        device=device(),
    )


def deployed_neighbourhood(source: GraphArtifacts, config: GNNConfig, params: Params) -> Neighbourhood:
    """The graph that informs the corpus, as a trained network of this `config` reads it."""
    return open_neighbourhood(
        source,
        edge_features=config.edge_features,
        labelled_edges=params.encode_corpus.labelled_edges,
        max_neighbours=params.mgt.max_neighbours,
        self_loops_only=config.graph == "self_loops",
        typed=config.labelled,
    )


def _edges_of(pairs: pl.DataFrame, graph: Graph) -> NDArray[np.bool_]:
    """Which edges are such pairs of a node and a passage. *Shape:* (edges,)."""
    return graph.labelled_edges(pair_keys(pairs, graph.m))
