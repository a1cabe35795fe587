"""The part of the query-passage graph that informs some passages, with its features, as input of the two GAT layers."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnn_encoder.base.judgements import pair_keys
from gnn_encoder.base.matrix import Rows, gather
from gnn_encoder.graph.features import EdgeFeatures
from gnn_encoder.graph.network import GNNConfig, QueryPassageGNN
from gnn_encoder.graph.segment import segment_weighted_sum
from gnn_encoder.graph.structure import Graph, Labels
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
    label_query: Rows = field(
        default_factory=NOBODY.copy
    )  # (L,) place in `queries` of each query that is labelled with one of the passages
    label_passage: Rows = field(default_factory=NOBODY.copy)  # (L,) place in `passages` of that passage, ascending
    # M_ce's features of the edges and of the passages' self-loops; None: those of the graph. (E, d_e), (b, d_e)
    features: tuple[NDArray[Any], NDArray[Any]] | None = None


@dataclass(frozen=True, kw_only=True)
class GraphData:
    """The graph that was built, and what the layers read with it.

    Attributes:
        judged: relevant pairs of the training queries, columns query, passage.
        cached: M_de's passage embeddings, which Eq. 6 always reads. *Shape:* (m, d).
        features: the cross-encoder's edge features; None if the network reads none of them.
    """

    graph: Graph
    judged: pl.DataFrame
    cached: NDArray[Any]
    features: EdgeFeatures | None

    def neighbourhood(
        self, config: GNNConfig, *, without: pl.DataFrame | None = None, max_neighbours: int | None = None
    ) -> "Neighbourhood":
        """The graph as a network reads it. Its configuration says whether labels have types, or are summed up.

        Args:
            without: edges that are dropped, columns query, passage; with them the sums. None: all stay.
            max_neighbours: as in `Neighbourhood`.
        """
        return Neighbourhood(
            self.graph,
            self.cached,
            self.features,
            keep_edge=None if without is None else ~self._edges_of(without),
            max_neighbours=max_neighbours,
            labelled=self._edges_of(self.judged) if config.labelled else None,
            labels=Labels(self.judged, self.graph.m) if config.sums and without is None else None,
            device=device(),
        )

    def _edges_of(self, pairs: pl.DataFrame) -> NDArray[np.bool_]:
        """Which edges are such pairs of a query and a passage. *Shape:* (edges,)."""
        return self.graph.labelled_edges(pair_keys(pairs, self.graph.m))


class Neighbourhood:
    """The graph with M_de's cached passage embeddings and the edge features; it gives the GAT layers what they read.

    Args:
        cached: M_de's passage embeddings, which Eq. 6 always reads. *Shape:* (m, d).
        features: the cross-encoder's edge features; None if the network reads none of them.
        keep_edge: False for edges that both layers leave out; None: they leave out none. *Shape:* (n * k,).
        max_neighbours: in layer 2, the most queries per passage, those of the highest scores first; None: all.
        labelled: True for edges of queries that are labelled with the passage; None: the network does not tell them
            from others. *Shape:* (n * k,).
        labels: the queries that are labelled with each passage, whether it is among their k or not; None: the network
            does not sum them up.
        device: where tensors are put.
    """

    def __init__(
        self,
        graph: Graph,
        cached: NDArray[Any],
        features: EdgeFeatures | None,
        *,
        keep_edge: NDArray[np.bool_] | None = None,
        max_neighbours: int | None = None,
        labelled: NDArray[np.bool_] | None = None,
        labels: Labels | None = None,
        device: torch.device,
    ) -> None:
        self.graph, self.cached, self.features, self.device = graph, cached, features, device
        self.labelled, self.max_neighbours = labelled, max_neighbours
        self._keep_edge, self.labels = keep_edge, labels

    def around(self, passages: Rows, propagation: NDArray[np.bool_] | None = None) -> Subgraph:
        """The subgraph of `passages`: their queries and edges.

        Args:
            propagation: True for queries that are in the graph, False for masked ones; None: all are. *Shape:* (n,).
        """
        edges, target = self.graph.passage_edges(passages, propagation, self._keep_edge, self.max_neighbours)
        asking, asked = (NOBODY, NOBODY) if self.labels is None else self.labels.of_passages(passages, propagation)
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
        edges, labelled, sums = self._edges(subgraph), self._types(subgraph), None
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
        return gnn.explain(h_p, h_q_prime, *self._edges(subgraph), h_q=h_q, labelled=self._types(subgraph))

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

    def _types(self, subgraph: Subgraph) -> Tensor | None:
        """1 for labelled edges, else 0, as for edges that the graph was built without. *Shape:* (E,)."""
        if self.labelled is None:
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
