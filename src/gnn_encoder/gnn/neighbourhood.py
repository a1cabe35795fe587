"""The graph as a network reads it: what informs some passages, in training, and h'_p of the whole corpus."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnn_encoder.base.judgements import NO_ROWS, relevant_pairs
from gnn_encoder.base.matrix import Mask, Matrix, Rows, Scores, check_shape, gather_rows, open_matrix
from gnn_encoder.base.tables import ATTENTION
from gnn_encoder.gnn.graph import EdgeFeatures, Graph, Labels, open_features, open_graph, open_nodes
from gnn_encoder.gnn.network import GNNConfig, Informed, QueryPassageGNN
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import MGT, Params
from gnn_encoder.pipeline.project import MAIN, REFERENCE
from gnn_encoder.text.corpus import embed_passages, embed_queries, load_encoder, open_passages, origin_of, same_origin
from gnn_encoder.text.device import device, on_device
from gnn_encoder.text.encoder import DualEncoder

QUERIES_AT_A_TIME = 2_048  # queries per part of layer 1 at inference, to bound its memory
SCORES = 2**25  # scores of queries and new passages that are held at a time


@dataclass(frozen=True)
class Subgraph:
    """Some passages, the queries that inform them, and the edges between both."""

    passages: Rows  # (b,) rows of the passages; -1 for one that the graph was built without
    queries: Rows  # (u,) rows of the nodes table, ascending, each once
    edges: Rows  # (E,) rows of the edges table; -1 for an edge to such a passage
    edge_query: Rows  # (E,) each edge's place in `queries`
    edge_passage: Rows  # (E,) each edge's place in `passages`, ascending
    # (L,) places of each label that is summed up: its query's in `queries`, and its passage's in `passages`, ascending
    label_query: Rows = field(default_factory=NO_ROWS.copy)
    label_passage: Rows = field(default_factory=NO_ROWS.copy)


class Neighbourhood:
    """A graph with all that the two GAT layers read: labels, M_de's passage embeddings, M_ce's edge features.

    Eq. 6 always reads the `cached` embeddings of passages, *Shape:* (m, d). With `sums` the network sums up the queries
    that are labelled with a passage, whether it is among their k or not.
    """

    def __init__(
        self, graph: Graph, cached: NDArray[Any], features: EdgeFeatures | None, labels: Labels, *, sums: bool
    ) -> None:
        self.graph, self.cached, self.features, self.labels = graph, cached, features, labels
        self.sums = sums
        self._keep_edge: Mask | None = None

    @classmethod
    def open(cls, network: GNNConfig | MGT, dimension: int) -> "Neighbourhood":
        """The graph, with what a network of this configuration reads; `dimension` is d."""
        graph, matrix = open_graph(), project.embeddings(REFERENCE)
        check_shape(matrix, (graph.m, dimension))
        features = open_features(graph) if network.edge_features == "cross_encoder" else None
        labels = Labels(relevant_pairs(*project.tables("train")), graph.m)
        return cls(graph, open_matrix(matrix), features, labels, sums=network.labels)

    @property
    def edge_dimension(self) -> int | None:
        """d_e, columns of the edge features; None without any."""
        return None if self.features is None else self.features.edges.shape[1]

    def without(self, pairs: pl.DataFrame) -> "Neighbourhood":
        """The same, but both layers leave out the edges of some pairs, and with them the sums."""
        other = copy(self)
        other.sums, other._keep_edge = False, ~self.graph.edges_of(pairs)
        return other

    @cached_property
    def labelled(self) -> Mask:
        """Which edges join a query and a passage that it is labelled with. *Shape:* (n * k,)."""
        return self.graph.edges_of(self.labels.pairs)

    def around(self, passages: Rows, propagation: Mask | None = None) -> Subgraph:
        """The subgraph of `passages`, without the queries whose `propagation` is False. *Shape:* (b,), (n,)."""
        edges, target = self.graph.passage_edges(passages)
        asking, asked = self.labels.of_passages(passages if self.sums else NO_ROWS)
        keep = np.ones(len(edges), dtype=bool) if self._keep_edge is None else self._keep_edge[edges]
        if propagation is not None:
            keep, informs = keep & propagation[edges // self.graph.k], propagation[asking]
            asking, asked = asking[informs], asked[informs]
        edges, target = edges[keep], target[keep]
        queries, place = np.unique(np.concatenate([edges // self.graph.k, asking]), return_inverse=True)
        return Subgraph(passages, queries, edges, place[: len(edges)], target, place[len(edges) :], asked)

    def around_new(self, queries: Matrix, passages: Matrix) -> Subgraph:
        """The subgraph of passages that the graph was built without, from M_de's embeddings of them and of the nodes.

        A query has an edge to those that score higher than the last of its k passages; to none if that is a labelled
        one, which comes first whatever its score. Its own edges stay, so that the passages that were there do not
        change. Edges are sorted by passage, then score from the highest on, then query.

        *Shape:* queries (n, d), passages (b, d).
        """
        assert self.features is None, "M_ce has read no new passages"
        shape, found = self.graph.passages.shape, list[tuple[Rows, Rows, Scores]]()
        least = self.graph.score.reshape(shape)[:, -1:]
        if self.sums:
            least = np.where(self.labelled.reshape(shape)[:, -1:], np.float32(np.inf), least)
        size = max(1, SCORES // max(1, len(passages)))
        for first in range(0, len(queries), size):
            scores = queries[first : first + size] @ passages.T
            query, passage = np.nonzero(scores > least[first : first + size])
            found.append((first + query, passage, scores[query, passage]))
        query, passage, score = map(np.concatenate, zip(*found, strict=True))
        order = np.lexsort((query, -score, passage))
        asking, place = np.unique(query[order], return_inverse=True)
        return Subgraph(np.full(len(passages), -1), asking, np.full(len(order), -1), place, passage[order])

    def passage_embeddings(self, rows: Rows) -> Tensor:
        """Cached passage embeddings. *Shape:* (..., ) -> (..., d)."""
        return self._tensor(self.cached[rows] if torch.is_grad_enabled() else gather_rows(self.cached, rows))

    def interactive_queries(self, gnn: QueryPassageGNN, queries: Rows, h_q: Tensor) -> Tensor:
        """h'_q of some queries (Eq. 6, 7). *Shape:* (u,), (u, d) -> (u, d)."""
        if gnn.config.layers == 1 or len(queries) == 0:
            return h_q
        if torch.is_grad_enabled():
            return self._layer_one(gnn, queries, h_q)
        informed = []
        for first in range(0, len(queries), QUERIES_AT_A_TIME):
            part = slice(first, first + QUERIES_AT_A_TIME)
            informed.append(self._layer_one(gnn, queries[part], h_q[part]))
            if len(queries) > QUERIES_AT_A_TIME:
                self.release()
        return torch.cat(informed)

    def _layer_one(self, gnn: QueryPassageGNN, queries: Rows, h_q: Tensor) -> Tensor:
        rows, features = queries[:, None] * self.graph.k + np.arange(self.graph.k), None
        if self.features is not None:
            features = self._tensor(self.features.edges[rows]), self._tensor(self.features.query_loops[queries])
        keep = None if self._keep_edge is None else on_device(self._keep_edge[rows])
        return gnn.interactive_queries(h_q, self.passage_embeddings(self.graph.passages[queries]), features, keep)

    def interactive_passages(
        self, gnn: QueryPassageGNN, subgraph: Subgraph, h_p: Tensor, h_q: Tensor, h_q_prime: Tensor
    ) -> Informed:
        """h'_p (Eq. 8-10) from the subgraph's queries. *Shape:* (b, d), (u, d), (u, d) -> (b, d)."""
        features = labelled = None
        if self.features is not None:
            edges, loops = self.features.edges[subgraph.edges], self.features.of_passage_loops(subgraph.passages)
            features = self._tensor(edges), self._tensor(loops)
        if gnn.config.labels:  # edges that the graph was built without are not
            labelled = self._tensor(self.labelled[subgraph.edges] & (subgraph.edges >= 0))
        return gnn.interactive_passages(
            h_p,
            h_q,
            h_q_prime,
            on_device(subgraph.edge_query),
            on_device(subgraph.edge_passage),
            features,
            labelled,
            labels=(on_device(subgraph.label_query), on_device(subgraph.label_passage)),
        )

    def release(self) -> None:
        """Give back the memory of edge features that were read; training, which returns to them, keeps it."""
        if self.features is not None:
            self.features.release()

    def _tensor(self, values: NDArray[Any]) -> Tensor:
        return on_device(np.ascontiguousarray(values)).float()


class CorpusGNN:
    """Turns windows of passage embeddings h_p into h'_p (Eq. 8-10). All queries of the graph take part, none is masked.

    The queries' h'_q (Eq. 6, 7), `interactive`, are the same for all windows, and are computed once if at all.

    *Shape:* queries, by the trained encoder, and interactive (n, d).
    """

    def __init__(
        self,
        gnn: QueryPassageGNN,
        near: Neighbourhood,
        queries: Matrix,
        interactive: Matrix | None = None,
    ) -> None:
        self._gnn, self.near = gnn.eval(), near
        self._queries = on_device(queries)
        if interactive is None:
            with torch.no_grad():
                interactive = near.interactive_queries(gnn, np.arange(len(queries)), self._queries).cpu().numpy()
        self.interactive = interactive
        self._interactive = on_device(interactive)

    def __call__(self, first: int, embeddings: NDArray[Any]) -> Matrix:
        """h'_p of the passages from row `first` on. *Shape:* (b, d) -> (b, d)."""
        return self.inform(self.near.around(np.arange(first, first + len(embeddings))), embeddings)

    def inform(self, subgraph: Subgraph, embeddings: NDArray[Any]) -> Matrix:
        """h'_p of a subgraph's passages. *Shape:* (b, d) -> (b, d)."""
        return self._informed(subgraph, embeddings).embeddings.cpu().numpy()

    def explain(self, passages: Rows, embeddings: NDArray[Any]) -> pa.Table:
        """The attention, as the mean over heads, and the gates, as the mean over columns, as the `ATTENTION` table.

        *Shape:* passages (b,), embeddings (b, d).
        """
        subgraph = self.near.around(passages)
        informed = self._informed(subgraph, embeddings)
        attention, gate = informed.attention.mean(dim=1).cpu().numpy(), informed.gate.mean(dim=1).cpu().numpy()
        itself = np.full(len(passages), -1)
        query = np.concatenate([subgraph.queries[subgraph.edge_query], itself])
        target = np.concatenate([subgraph.edge_passage, np.arange(len(passages))])
        columns = [query, passages[target], attention, gate[target]]
        order = np.argsort(target, kind="stable")  # each passage: first its queries, then the passage itself
        return pa.table([column[order] for column in columns], names=ATTENTION.names).cast(ATTENTION)

    @torch.no_grad()
    def _informed(self, subgraph: Subgraph, embeddings: NDArray[Any]) -> Informed:
        queries = on_device(subgraph.queries)
        nodes = on_device(embeddings), self._queries[queries], self._interactive[queries]
        informed = self.near.interactive_passages(self._gnn, subgraph, *nodes)
        self.near.release()
        return informed


def open_informer(params: Params) -> tuple[CorpusGNN, DualEncoder, Path | None]:
    """The GNN over the whole graph, with Eq. 6 and 7 computed, its encoder, and M_de's matrix if that has its passages.

    The encoder is the one that was trained together with the GNN, or M_de where the passages are still M_de's, since
    the graph stayed as it was. As in training, the nodes are M_de's or the encoder's.
    """
    trained = project.encoder(MAIN)
    encoded = same_origin(origin_of(trained, project.PASSAGES), project.embeddings(REFERENCE))
    encoder = load_encoder(trained if encoded is None else project.encoder(REFERENCE), params.encoder)
    gnn = QueryPassageGNN.load(project.GNN)
    near, cached = Neighbourhood.open(gnn.config, gnn.config.dimension), gnn.config.cached_nodes
    nodes = open_nodes() if cached else embed_queries(encoder, project.NODES, params.encoder.batch_tokens)
    return CorpusGNN(gnn.to(device()), near, nodes), encoder, encoded


def open_explainer(params: Params) -> tuple[CorpusGNN, Callable[[Rows], Matrix]]:
    """The same GNN, and what gives h_p of some passages, which it informs. *Shape:* rows (b,) -> (b, d)."""
    inform, encoder, encoded = open_informer(params)
    matrix, limit = None if encoded is None else open_matrix(encoded), params.encoder.batch_tokens

    def before(rows: Rows) -> Matrix:
        if matrix is None:
            return embed_passages(encoder, open_passages(encoder), limit, rows)
        return gather_rows(matrix, rows).astype(np.float32)

    return inform, before
