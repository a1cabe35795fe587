"""Query-interactive embeddings h'_p of the whole corpus: the trained GNN over the full graph, window by window."""

import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnn_encoder.core import distributed
from gnn_encoder.core.records import ATTENTION
from gnn_encoder.core.rows import Rows
from gnn_encoder.core.storage.arrays import Origin, check_shape, gather, open_matrix
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.encoding.corpus import embed_passages, embed_queries
from gnn_encoder.encoding.matrix import same_encoder, write_matrix
from gnn_encoder.encoding.texts import open_passages, open_queries
from gnn_encoder.graph.artifacts import GraphArtifacts, deployed_neighbourhood
from gnn_encoder.graph.effect import Effect, effect_of
from gnn_encoder.graph.neighbourhood import Neighbourhood, Subgraph
from gnn_encoder.graph.network import QueryPassageGNN
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params

log = logging.getLogger(__name__)
EFFECT = "effect.json"  # in the folder of the matrix
SAMPLE = 2_000  # passages that the effect is measured on


class CorpusGNN:
    """Turns windows of passage embeddings h_p into h'_p (Eq. 8-10). All queries of the graph take part, none is masked.

    The queries' h'_q (Eq. 6, 7) are the same for all windows, and are computed once.

    Args:
        queries: E_Q of all queries of the graph, by the trained encoder. *Shape:* (n, d).
    """

    def __init__(self, gnn: QueryPassageGNN, near: Neighbourhood, queries: NDArray[np.float32]) -> None:
        self._gnn, self._near = gnn.eval(), near
        self._queries = torch.from_numpy(queries).to(near.device)
        with torch.no_grad():
            self._interactive = near.interactive_queries(gnn, np.arange(len(queries)), self._queries)

    @torch.no_grad()
    def __call__(self, first: int, embeddings: NDArray[Any]) -> NDArray[np.float32]:
        """h'_p of the passages from row `first` on. *Shape:* (b, d) -> (b, d)."""
        subgraph = self._near.around(np.arange(first, first + len(embeddings)))
        informed = self._near.interactive_passages(self._gnn, subgraph, *self._nodes(subgraph, embeddings))
        self._near.release()
        return informed.cpu().numpy()

    @property
    def retrieved(self) -> Rows:
        """Passages that some query retrieved, ascending. All other passages attend to themselves alone."""
        return np.flatnonzero(np.diff(self._near.graph.indptr))

    @torch.no_grad()
    def explain(self, passages: Rows, embeddings: NDArray[Any]) -> pa.Table:
        """The attention and the gates that `__call__` computes for some passages, as the `ATTENTION` table.

        *Shape:* passages (b,), embeddings (b, d).
        """
        subgraph = self._near.around(passages)
        attention, gate = self._near.explain(self._gnn, subgraph, *self._nodes(subgraph, embeddings))
        itself = np.full(len(passages), -1)
        query = np.concatenate([subgraph.queries[subgraph.edge_query], itself])
        target = np.concatenate([subgraph.edge_passage, np.arange(len(passages))])
        columns = [query, passages[target], attention.cpu().numpy(), gate.cpu().numpy()[target]]
        order = np.argsort(target, kind="stable")  # each passage: first its queries, then the passage itself
        return pa.table(
            [pa.array(column[order], field.type) for column, field in zip(columns, ATTENTION, strict=True)],
            schema=ATTENTION,
        )

    def _nodes(self, subgraph: Subgraph, embeddings: NDArray[Any]) -> tuple[Tensor, Tensor, Tensor]:
        """h_p, h'_q and h_q of a subgraph. *Shape:* (b, d) -> (b, d), (u, d), (u, d)."""
        queries = torch.from_numpy(subgraph.queries).to(self._near.device)
        h_p = torch.from_numpy(embeddings).to(self._near.device)
        return h_p, self._interactive[queries], self._queries[queries]


def load_encoder(model: Path, params: Params) -> DualEncoder:
    """The jointly trained dual-encoder of a GNN-encoder's folder."""
    return DualEncoder.load(model / "encoder", precision=params.encoder.precision).for_inference()


def open_informer(source: GraphArtifacts, model: Path, encoder: DualEncoder, params: Params) -> CorpusGNN:
    """The trained GNN over the whole graph, with Eq. 6 and 7 already computed.

    Args:
        source: the graph and its M_de.
        model: folder of the GNN.
        encoder: the encoder that was trained together with the GNN.

    Raises:
        UserError: M_de's matrix is of other passages, or has another dimension than the GNN.
    """
    gnn = QueryPassageGNN.load(model)
    check_shape(project.embeddings(source.base), (count_rows(project.PASSAGES), gnn.config.dimension))
    near = deployed_neighbourhood(source, gnn.config, params)
    queries = embed_queries(encoder, open_queries(source.queries, encoder), params.encoder.batch_tokens)
    return CorpusGNN(gnn.to(near.device), near, queries)


def inform_corpus(source: GraphArtifacts, model: Path, folder: Path, params: Params, origin: Origin) -> None:
    """Encode all passages with the jointly trained encoder, turn h_p into h'_p, and write the matrix and `EFFECT`.

    Args:
        model: folder of the GNN and its encoder.
        folder: scratch folder of the matrix; windows that an interrupted run finished there are kept.
        origin: what the matrix is made from.
    """
    encoder = load_encoder(model, params)
    inform = open_informer(source, model, encoder, params)
    encoded = same_encoder(model / "encoder", project.embeddings(source.base))
    write_matrix(encoder, folder, params, origin=origin, encoded=encoded, transform=inform)
    if distributed.is_first() and len(inform.retrieved):
        found = _effect(inform, encoder, folder, encoded, params)
        write_json(folder / EFFECT, asdict(found))
        for line in found.lines():
            log.info("%s: %s", source.name, line)
    distributed.barrier()


def _effect(inform: CorpusGNN, encoder: DualEncoder, folder: Path, encoded: Path | None, params: Params) -> Effect:
    """Of passages that some query retrieved, evenly spread over the corpus. `folder`: the matrix of h'_p."""
    rows = inform.retrieved
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, SAMPLE).round().astype(np.int64))]
    if encoded is not None:
        before = gather(open_matrix(encoded), rows).astype(np.float32)
    else:
        with distributed.alone():
            before = embed_passages(encoder, open_passages(encoder), params.encoder.batch_tokens, rows)
    after = gather(open_matrix(folder), rows).astype(np.float32)
    return effect_of(pl.DataFrame(inform.explain(rows, before)), before, after)
