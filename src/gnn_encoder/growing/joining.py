"""How new passages join the graph of a GNN-encoder.

A new passage is encoded by M_de and by the encoder that was trained with the GNN. It is linked to the queries that
would retrieve it by M_de, and the trained GNN informs it by these (Eq. 8-10). The queries' own h'_q (Eq. 6, 7) stay
those of the built graph: the new passage listens to the queries, and they will listen to it in the next build.
"""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnn_encoder.base.files import fingerprint, replacing
from gnn_encoder.base.judgements import pair_keys, relevant_pairs
from gnn_encoder.base.matrix import Rows, read_manifest
from gnn_encoder.base.tables import read_column
from gnn_encoder.graph.linking import Reach, link, nearest
from gnn_encoder.graph.neighbourhood import summed
from gnn_encoder.graph.network import QueryPassageGNN
from gnn_encoder.graph.structure import Labels
from gnn_encoder.growing.encoding import Matrix, check_model, embed_new, embed_new_pairs, passage_texts
from gnn_encoder.growing.reading import rows_of
from gnn_encoder.growing.versions import QUERIES, fingerprint_of, folder_of
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.graphs import GraphArtifacts, deployed_neighbourhood
from gnn_encoder.pipeline.opening import load_encoder, open_queries
from gnn_encoder.pipeline.params import Params
from gnn_encoder.text.corpus import iterate_queries, same_encoder
from gnn_encoder.text.cross_encoder import CrossEncoder
from gnn_encoder.text.device import device
from gnn_encoder.text.encoder import DualEncoder


class GraphJoiner:
    """The built graph of a system, its GNN and its encoders, open for new passages."""

    def __init__(self, system: str, params: Params) -> None:
        self._source, self._params = GraphArtifacts(name=system), params
        base, matrix = project.encoder(self._source.base), project.embeddings(self._source.base)
        model = project.gnn(system)
        check_model(project.embeddings(system), fingerprint(model), f"encode_corpus@{system}")
        check_model(matrix, DualEncoder.passage_fingerprint(base), f"cache_passages@{self._source.base}")
        self._gnn = QueryPassageGNN.load(model).to(device()).eval()
        self._m_de = load_encoder(base, params.encoder)
        stayed = same_encoder(model / "encoder", matrix) is not None
        # What embeds the graph, as `open_informer` has it.
        self._joint = self._m_de if stayed else load_encoder(model / "encoder", params.encoder)
        self._m_ce = None
        if self._gnn.config.edge_features == "cross_encoder":
            self._m_ce = CrossEncoder.load(project.CROSS_ENCODER, precision=params.encoder.precision).for_inference()
        self._dtype = read_manifest(matrix).dtype
        self._open_graph()
        built = fingerprint_of(project.index(system))
        self._queries = self._open_queries(folder_of(system) / f"{QUERIES}{built}")

    @torch.no_grad()
    def __call__(self, passages: pl.DataFrame) -> Matrix:
        """h'_p of new passages. *Shape:* (b,), columns pid, title, text -> (b, d)."""
        h_p = cached = self.embed(passages)
        if self._joint is not self._m_de:
            h_p = embed_new(self._joint, passages, self._params.encoder.batch_tokens)
        built = self.built(passages["pid"])
        edges = self.edges_of(built, cached)
        queries, edge_query = np.unique(edges["query"].to_numpy(), return_inverse=True)
        edge_passage = edges["passage"].to_numpy(writable=True)
        features, loops = self._features(passages, queries, edge_query, edge_passage)
        informed = self._gnn.interactive_passages(
            h_p=_tensor(h_p),
            h_q_prime=_tensor(self._queries["h_q_prime"][queries]),
            edge_query=torch.from_numpy(edge_query).to(device()),
            edge_passage=torch.from_numpy(edge_passage).to(device()),
            edge_features=features,
            loop_features=loops,
            h_q=_tensor(self._queries["h_q"][queries]),
            labelled=_tensor(edges["labelled"].to_numpy()) if self._gnn.config.labelled else None,
            sums=self._sums(built, len(passages)),
        )
        return np.asarray(informed.cpu())

    def embed(self, passages: pl.DataFrame) -> Matrix:
        """E_P by M_de, rounded as the pipeline stores it. *Shape:* (b,), columns title, text -> (b, d)."""
        cached = embed_new(self._m_de, passages, self._params.encoder.batch_tokens)
        return cached.astype(self._dtype).astype(np.float32)

    def built(self, pids: pl.Series) -> pl.DataFrame:
        """Which of some passages had their ids in the build: columns row, of the build, and place, among these."""
        found = rows_of(project.PASSAGES, pids).join(pl.DataFrame({"pid": pids}).with_row_index("place"), on="pid")
        return found.select(pl.col("row").cast(pl.Int32), pl.col("place").cast(pl.Int64))

    def edges_of(self, built: pl.DataFrame, cached: Matrix) -> pl.DataFrame:
        """The edges of new passages. Labels of an id, and what retrieved it in the build, go on to hold.

        Args:
            built: as of `built`.
            cached: E_P of the passages by M_de. *Shape:* (b, d).

        Returns:
            Columns query, passage, score, labelled: whether a training query is labelled with the passage.
        """
        edges, at = self._graph.passage_edges(built["row"].to_numpy())
        before = np.stack([edges // self._graph.k, built["place"].to_numpy()[at]], axis=1)
        labels = self._labels.join(built, left_on="passage", right_on="row")
        labels = labels.select(pl.col("query").cast(pl.Int64), passage="place")
        found = link(self._queries["m_de"], self._reach, cached, labelled=labels.to_numpy(), before=before)
        found = found.join(labels.with_columns(known=True), on=["query", "passage"], how="left", maintain_order="left")
        found = found.with_columns(labelled=pl.col("known").fill_null(False))
        return nearest(found, self._params.mgt.max_neighbours).drop("known")

    def _sums(self, built: pl.DataFrame, n: int) -> tuple[Tensor, Tensor] | None:
        """The labelled queries of `n` new passages, summed up as in the build. *Shape:* (n, d), (n,)."""
        if self._summed is None:
            return None
        queries, at = self._summed.of_passages(built["row"].to_numpy())
        h_q, passage = _tensor(self._queries["h_q"][queries]), torch.from_numpy(built["place"].to_numpy()[at])
        return summed(h_q, torch.arange(len(h_q), device=h_q.device), passage.to(h_q.device), n)

    def _features(
        self, passages: pl.DataFrame, queries: Rows, edge_query: Rows, edge_passage: Rows
    ) -> tuple[Tensor | None, Tensor | None]:
        """M_ce's features of the edges and of the passages' self-loops. *Shape:* (E, d_e), (b, d_e)."""
        if self._m_ce is None:
            return None, None
        asked = read_column(self._source.queries, "text").take(queries).to_pylist()
        told, itself = passage_texts(passages, self._m_ce.tokenizer), np.arange(len(passages))
        edges = embed_new_pairs(self._m_ce, asked, told, (edge_query, edge_passage), self._params)
        loops = embed_new_pairs(self._m_ce, told, told, (itself, itself), self._params)
        return _tensor(edges), _tensor(loops)

    def _open_graph(self) -> None:
        """Its edges and labels, and what a passage must score to enter a query's k passages."""
        graph, self._labels = self._source.open(), relevant_pairs(*project.tables("train"))
        self._graph = graph
        self._summed = Labels(self._labels, graph.m) if self._gnn.config.sums else None
        labels_first = self._params.build_graph.labelled
        self._reach = Reach.of(graph, graph.labelled_edges(pair_keys(self._labels, graph.m)) if labels_first else None)

    def _open_queries(self, folder: Path) -> dict[str, Matrix]:
        """E_Q by M_de and by the encoder trained with the GNN, and h'_q, of all queries; computed once for each build.

        *Shape:* (n, d) each.
        """
        if not folder.exists():
            with replacing(folder) as beside:
                self._write_queries(beside)
        return {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("m_de", "h_q", "h_q_prime")}

    @torch.no_grad()
    def _write_queries(self, folder: Path) -> None:
        def embedded(encoder: DualEncoder) -> Matrix:
            asked = open_queries(self._source.queries, encoder)
            return np.concatenate(list(iterate_queries(encoder, asked, batch_tokens)))

        batch_tokens = self._params.encoder.batch_tokens
        asked = embedded(self._m_de)
        h_q = asked if self._joint is self._m_de else embedded(self._joint)
        near = deployed_neighbourhood(self._source, self._gnn.config, self._params)
        informed = near.interactive_queries(self._gnn, np.arange(len(h_q)), torch.from_numpy(h_q).to(near.device))
        for name, values in (("m_de", asked), ("h_q", h_q), ("h_q_prime", informed.cpu().numpy())):
            np.save(folder / f"{name}.npy", values)


def _tensor(values: NDArray[Any]) -> Tensor:
    """As float32, where models run."""
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32)).to(device())
