"""Query-interactive embeddings h'_p: of the whole corpus, window by window, and the edges of new passages."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnn_encoder.base.matrix import Matrix, Rows, Scores, check_shape
from gnn_encoder.base.tables import ATTENTION, count_rows
from gnn_encoder.gnn.graph import Bools, Graph, queries_of
from gnn_encoder.gnn.neighbourhood import Neighbourhood, Subgraph, open_neighbourhood
from gnn_encoder.gnn.network import GNNConfig, QueryPassageGNN
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.text.corpus import embed_rows, load_encoder, same_encoder
from gnn_encoder.text.encoder import DualEncoder

SCORES = 2**25  # scores of queries and new passages that are held at a time


class CorpusGNN:
    """Turns windows of passage embeddings h_p into h'_p (Eq. 8-10). All queries of the graph take part, none is masked.

    The queries' h'_q (Eq. 6, 7) are the same for all windows, and are computed once.

    Args:
        queries: E_Q of all queries of the graph, by the trained encoder. *Shape:* (n, d).
        interactive: their h'_q where it is known; None: it is computed. *Shape:* (n, d).
    """

    def __init__(
        self,
        gnn: QueryPassageGNN,
        near: Neighbourhood,
        queries: NDArray[np.float32],
        interactive: NDArray[np.float32] | None = None,
    ) -> None:
        self._gnn, self.near = gnn.eval(), near
        self._queries = torch.from_numpy(queries).to(near.device)
        with torch.no_grad():
            self._interactive = (
                near.interactive_queries(gnn, np.arange(len(queries)), self._queries)
                if interactive is None
                else torch.from_numpy(interactive).to(near.device)
            )

    @property
    def interactive(self) -> NDArray[np.float32]:
        """h'_q of all queries of the graph. *Shape:* (n, d)."""
        return self._interactive.cpu().numpy()

    @property
    def retrieved(self) -> Rows:
        """Passages that some query retrieved, ascending. All other passages attend to themselves alone."""
        return np.flatnonzero(np.diff(self.near.graph.indptr))

    def __call__(self, first: int, embeddings: NDArray[Any]) -> NDArray[np.float32]:
        """h'_p of the passages from row `first` on. *Shape:* (b, d) -> (b, d)."""
        return self.inform(self.near.around(np.arange(first, first + len(embeddings))), embeddings)

    @torch.no_grad()
    def inform(self, subgraph: Subgraph, embeddings: NDArray[Any]) -> NDArray[np.float32]:
        """h'_p of a subgraph's passages. *Shape:* (b, d) -> (b, d)."""
        informed = self.near.interactive_passages(self._gnn, subgraph, *self._nodes(subgraph, embeddings))
        self.near.release()
        return informed.cpu().numpy()

    @torch.no_grad()
    def explain(self, passages: Rows, embeddings: NDArray[Any]) -> pa.Table:
        """The attention, as the mean over heads, and the gates of some passages, as the `ATTENTION` table.

        *Shape:* passages (b,), embeddings (b, d).
        """
        subgraph = self.near.around(passages)
        heads, gates = self.near.explain(self._gnn, subgraph, *self._nodes(subgraph, embeddings))
        attention, gate = heads.mean(dim=1).cpu().numpy(), gates.cpu().numpy()
        itself = np.full(len(passages), -1)
        query = np.concatenate([subgraph.queries[subgraph.edge_query], itself])
        target = np.concatenate([subgraph.edge_passage, np.arange(len(passages))])
        columns = [query, passages[target], attention, gate[target]]
        order = np.argsort(target, kind="stable")  # each passage: first its queries, then the passage itself
        return pa.table(
            [pa.array(column[order], field.type) for column, field in zip(columns, ATTENTION, strict=True)],
            schema=ATTENTION,
        )

    def _nodes(self, subgraph: Subgraph, embeddings: NDArray[Any]) -> tuple[Tensor, Tensor, Tensor]:
        """h_p, h'_q and h_q of a subgraph. *Shape:* (b, d) -> (b, d), (u, d), (u, d)."""
        queries = torch.from_numpy(subgraph.queries).to(self.near.device)
        h_p = torch.from_numpy(embeddings).to(self.near.device)
        return h_p, self._interactive[queries], self._queries[queries]


def graph_encoder(system: str, model: Path, params: Params) -> tuple[DualEncoder, Path | None]:
    """The encoder of a graph's nodes and passages, and M_de's matrix if that holds these passages; else None.

    It is the one that was trained together with the GNN; where its passages are still M_de's, it is M_de, since the
    graph stayed as it was.

    Args:
        model: folder of the GNN and of the encoder that was trained together with it.
    """
    base = project.base(system)
    encoded = same_encoder(model / "encoder", project.embeddings(base))
    return load_encoder(model / "encoder" if encoded is None else project.encoder(base), params.encoder), encoded


def open_informer(system: str, model: Path, encoder: DualEncoder, params: Params) -> CorpusGNN:
    """The trained GNN over the whole graph, with Eq. 6 and 7 already computed.

    Args:
        model: folder of the GNN.
        encoder: that of `graph_encoder`.
    """
    gnn = QueryPassageGNN.load(model)
    check_shape(project.embeddings(project.base(system)), (count_rows(project.PASSAGES), gnn.config.dimension))
    near = deployed_neighbourhood(system, gnn.config, params)
    return CorpusGNN(gnn.to(near.device), near, embed_rows(encoder, queries_of(system), params.encoder))


def deployed_neighbourhood(system: str, config: GNNConfig, params: Params) -> Neighbourhood:
    """The graph that informs the corpus, as a trained network of this `config` reads it."""
    most = params.mgt.max_neighbours
    return open_neighbourhood(system, edge_features=config.edge_features, sums=config.sums, max_neighbours=most)


# --- passages that the graph was built without ------------------------------------------------------------------------
# They get edges to the queries that would retrieve them. The queries' own edges stay, so that passages of the build do
# not change with new ones.


def reach(graph: Graph, first: Bools | None = None) -> Scores:
    """What a new passage's score must exceed to be among each query's k passages. *Shape:* (n,).

    Args:
        first: edges to labelled passages, where these come first, whatever their score; None: none do.
            *Shape:* (n * k,).
    """
    last = graph.score.reshape(graph.n, graph.k)[:, -1]
    if first is None:
        return last
    bound: Scores = np.where(first.reshape(graph.n, graph.k)[:, -1], np.float32(np.inf), last)
    return bound


def link(queries: Matrix, least: Scores, passages: Matrix) -> pl.DataFrame:
    """The queries that would retrieve new passages.

    Args:
        queries: E_Q of all queries of the graph. *Shape:* (n, d).
        least: as of `reach`.
        passages: by the encoder that the graph was made with. *Shape:* (b, d).

    Returns:
        Columns query, passage, score, sorted by passage, then score from the highest on, then query.
    """
    found = [pl.DataFrame(schema={"query": pl.Int64, "passage": pl.Int64, "score": pl.Float32})]
    size = max(1, SCORES // max(1, len(passages)))
    for first in range(0, len(queries), size):
        scores = queries[first : first + size] @ passages.T
        query, passage = np.nonzero(scores > least[first : first + size, None])
        found.append(pl.DataFrame({"query": first + query, "passage": passage, "score": scores[query, passage]}))
    return pl.concat(found).sort("passage", "score", "query", descending=[False, True, False])


def nearest(edges: pl.DataFrame, most: int | None) -> pl.DataFrame:
    """The `most` first edges of each passage; None: all."""
    return edges if most is None else edges.filter(pl.int_range(pl.len()).over("passage") < most)
