"""The part of the query-passage graph that informs some passages, with its features, as input of the two GAT layers."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnn_encoder.base.matrix import Rows, gather, open_matrix
from gnn_encoder.gnn.edge_features import EdgeFeatures, open_features
from gnn_encoder.gnn.graph import Bools, Graph, Labels, open_graph, open_labels
from gnn_encoder.gnn.network import QueryPassageGNN
from gnn_encoder.gnn.segment import segment_weighted_sum
from gnn_encoder.pipeline import project
from gnn_encoder.text.device import device

QUERIES_AT_A_TIME = 2_048  # queries per part of layer 1 at inference, to bound its memory
NOBODY: Rows = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Subgraph:
    """Some passages, the queries that inform them, and the edges between both."""

    passages: Rows  # (b,) rows of the passages; -1 for one that the graph was built without
    queries: Rows  # (u,) rows of the nodes table, ascending, each once
    edges: Rows  # (E,) rows of the edges table; -1 for an edge to such a passage
    edge_query: Rows  # (E,) each edge's place in `queries`
    edge_passage: Rows  # (E,) each edge's place in `passages`, ascending
    # (L,) places of each label that is summed up: its query's in `queries`, and its passage's in `passages`, ascending
    label_query: Rows = field(default_factory=NOBODY.copy)
    label_passage: Rows = field(default_factory=NOBODY.copy)
    # M_ce's features of the edges and of the passages' self-loops; None: those of the graph. (E, d_e), (b, d_e)
    features: tuple[NDArray[Any], NDArray[Any]] | None = None


class Neighbourhood:
    """A graph with all that the two GAT layers read: labels, M_de's passage embeddings, M_ce's edge features.

    Args:
        cached: M_de's passage embeddings, which Eq. 6 always reads. *Shape:* (m, d).
        features: None if the network reads none of them.
        labels: the queries that are labelled with each passage, whether it is among their k or not.
        sums: whether the network sums these up.
        max_neighbours: in layer 2, the most queries per passage, those of the highest scores first; None: all.
        without: edges that both layers leave out, and with them the sums, columns query, passage; None: none.
    """

    def __init__(
        self,
        graph: Graph,
        cached: NDArray[Any],
        features: EdgeFeatures | None,
        labels: Labels,
        *,
        sums: bool,
        max_neighbours: int | None = None,
        without: pl.DataFrame | None = None,
    ) -> None:
        self.graph, self.cached, self.features, self.labels = graph, cached, features, labels
        self.sums, self.max_neighbours, self.device = sums and without is None, max_neighbours, device()
        self._keep_edge = None if without is None else ~graph.edges_of(without)

    def without(self, pairs: pl.DataFrame) -> "Neighbourhood":
        """The same, but some edges are left out."""
        read = self.graph, self.cached, self.features, self.labels
        return Neighbourhood(*read, sums=self.sums, max_neighbours=self.max_neighbours, without=pairs)

    @cached_property
    def labelled(self) -> Bools:
        """Which edges join a query and a passage that it is labelled with. *Shape:* (n * k,)."""
        return self.graph.edges_of(self.labels.pairs)

    def around(self, passages: Rows, propagation: Bools | None = None) -> Subgraph:
        """The subgraph of `passages`: their queries and edges.

        Args:
            propagation: True for queries that are in the graph, False for masked ones; None: all are. *Shape:* (n,).
        """
        edges, target = self.graph.passage_edges(passages, propagation, self._keep_edge, self.max_neighbours)
        asking, asked = self.labels.of_passages(passages, propagation) if self.sums else (NOBODY, NOBODY)
        queries, place = np.unique(np.concatenate([edges // self.graph.k, asking]), return_inverse=True)
        return Subgraph(passages, queries, edges, place[: len(edges)], target, place[len(edges) :], asked)

    def passage_embeddings(self, rows: Rows) -> Tensor:
        """Cached passage embeddings. *Shape:* (..., ) -> (..., d)."""
        return self._tensor(self.cached[rows] if torch.is_grad_enabled() else gather(self.cached, rows))

    def interactive_queries(self, gnn: QueryPassageGNN, queries: Rows, h_q: Tensor) -> Tensor:
        """h'_q of some queries (Eq. 6, 7). *Shape:* (u,), (u, d) -> (u, d)."""
        if gnn.config.layers == 1 or len(queries) == 0:
            return h_q
        if torch.is_grad_enabled() or len(queries) <= QUERIES_AT_A_TIME:
            return self._layer_one(gnn, queries, h_q)
        informed = []
        for first in range(0, len(queries), QUERIES_AT_A_TIME):
            part = slice(first, first + QUERIES_AT_A_TIME)
            informed.append(self._layer_one(gnn, queries[part], h_q[part]))
            self.release()
        return torch.cat(informed)

    def _layer_one(self, gnn: QueryPassageGNN, queries: Rows, h_q: Tensor) -> Tensor:
        rows = queries[:, None] * self.graph.k + np.arange(self.graph.k)
        keep = None if self._keep_edge is None else torch.from_numpy(self._keep_edge[rows]).to(self.device)
        return gnn.interactive_queries(
            h_q,
            self.passage_embeddings(self.graph.passages[queries]),
            edge_features=None if self.features is None else self._tensor(self.features.of_edges(rows)),
            loop_features=None if self.features is None else self._tensor(self.features.query_loops[queries]),
            keep=keep,
        )

    def interactive_passages(
        self, gnn: QueryPassageGNN, subgraph: Subgraph, h_p: Tensor, h_q_prime: Tensor, h_q: Tensor
    ) -> Tensor:
        """h'_p (Eq. 8-10) from the subgraph's queries. *Shape:* (b, d), (u, d), (u, d) -> (b, d)."""
        edges, labelled, sums = self._edges(subgraph), self._types(gnn, subgraph), None
        if gnn.config.sums:
            query, passage = (
                torch.from_numpy(rows).to(self.device) for rows in (subgraph.label_query, subgraph.label_passage)
            )
            sums = summed(h_q, query, passage, len(h_p))
        return gnn.interactive_passages(h_p, h_q_prime, *edges, h_q=h_q, labelled=labelled, sums=sums)

    def passages_informed(self, gnn: QueryPassageGNN, subgraph: Subgraph, h_p: Tensor, h_q: Tensor) -> Tensor:
        """h'_p of a subgraph's passages, by both layers (Eq. 6-10). *Shape:* (b, d), (u, d) -> (b, d)."""
        h_q_prime = self.interactive_queries(gnn, subgraph.queries, h_q)
        return self.interactive_passages(gnn, subgraph, h_p, h_q_prime, h_q)

    def explain(
        self, gnn: QueryPassageGNN, subgraph: Subgraph, h_p: Tensor, h_q_prime: Tensor, h_q: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Attention (Eq. 4) of the subgraph's edges, then of its passages' self-loops; and the gates (Eq. 9).

        *Shape:* (b, d), (u, d), (u, d) -> (E + b, heads), (b,).
        """
        return gnn.explain(h_p, h_q_prime, *self._edges(subgraph), h_q=h_q, labelled=self._types(gnn, subgraph))

    def release(self) -> None:
        """Give back the memory of edge features that were read; training, which returns to them, keeps it."""
        if self.features is not None:
            self.features.release()

    def _edges(self, subgraph: Subgraph) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Query and passage of each edge, features of the edges and of the passages' self-loops."""
        found, built = subgraph.features, self.features
        if found is None and built is not None:
            found = built.of_edges(subgraph.edges), built.of_passage_loops(subgraph.passages)
        return (
            torch.from_numpy(subgraph.edge_query).to(self.device),
            torch.from_numpy(subgraph.edge_passage).to(self.device),
            None if found is None else self._tensor(found[0]),
            None if found is None else self._tensor(found[1]),
        )

    def _types(self, gnn: QueryPassageGNN, subgraph: Subgraph) -> Tensor | None:
        """1 for labelled edges, else 0, as for edges that the graph was built without. *Shape:* (E,)."""
        if not gnn.config.labelled:
            return None
        return self._tensor(self.labelled[subgraph.edges] & (subgraph.edges >= 0))

    def _tensor(self, values: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device).float()


def summed(h_q: Tensor, query: Tensor, passage: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Of each of `n` passages the sum of its labelled queries, and how many these are, as `mgt.sums` has them.

    *Shape:* h_q (u, d); query, passage (L,), the rows that each label joins -> (n, d), (n,).
    """
    total = segment_weighted_sum(h_q.new_ones(len(query), 1), h_q.unsqueeze(1), query, passage, n).squeeze(1)
    return total, torch.bincount(passage, minlength=n)


def open_neighbourhood(system: str, *, edge_features: str, sums: bool, max_neighbours: int | None) -> Neighbourhood:
    """The graph of a system with what a network reads that has these `edge_features` and `sums`."""
    graph, labels = open_graph(system), open_labels()
    features = open_features(system, graph) if edge_features == "cross_encoder" else None
    cached = open_matrix(project.embeddings(project.base(system)))
    return Neighbourhood(graph, cached, features, Labels(labels, graph.m), sums=sums, max_neighbours=max_neighbours)
