"""How passages and queries join the graph of a GNN-encoder.

A new passage is encoded by M_de and by the encoder that was trained with the GNN, linked to the queries that would
retrieve it, and informed by them (Eq. 8-10). A new query is linked to its k best passages and listens to them (Eq. 6,
7), and then these passages are informed anew.
"""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from gnn_encoder.core.storage.arrays import read_manifest
from gnn_encoder.core.storage.fingerprint import fingerprint
from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.encoding.matrix import same_encoder
from gnn_encoder.graph.artifacts import GraphArtifacts
from gnn_encoder.graph.labelled import labelled_first
from gnn_encoder.graph.network import QueryPassageGNN
from gnn_encoder.growing.encoding import Matrix, PairEncoder, TextEncoder
from gnn_encoder.growing.informing import Informer, passage_texts, to_tensor
from gnn_encoder.growing.labels import built_rows, logged_pairs, logged_queries
from gnn_encoder.growing.made import Made, check_model
from gnn_encoder.growing.nodes import LINKS, QueryNodes, built_nodes, reach
from gnn_encoder.growing.overlay import Overlay
from gnn_encoder.growing.reading import Log
from gnn_encoder.growing.retrieval import passages_of, queries_of
from gnn_encoder.growing.segment import H_Q, H_Q_PRIME, M_DE, REACH, append, matrix_writer
from gnn_encoder.models.device import device
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params

Rows = NDArray[np.int64]
LOGGED_AT_A_TIME = 4_096  # queries
NO_LINKS = pl.DataFrame(schema=pl.Schema(LINKS))


class GraphGrower:
    """Grows the index of a GNN-encoder; `made.Grower` tells what its methods do."""

    def __init__(self, overlay: Overlay, params: Params) -> None:
        system = overlay.manifest.system
        self.overlay, self.params, self.source = overlay, params, GraphArtifacts(name=system)
        base, matrix = project.encoder(self.source.base), project.embeddings(self.source.base)
        model = project.gnn(system)
        check_model(project.embeddings(system), fingerprint(model), f"encode_corpus@{system}")
        check_model(matrix, DualEncoder.fingerprint(base), f"cache_passages@{self.source.base}")
        self.gnn = QueryPassageGNN.load(model, dimension=overlay.manifest.dimension).to(device()).eval()
        self.m_de = TextEncoder(base, params)
        self.joint = self.m_de if same_encoder(model / "encoder", matrix) else TextEncoder(model / "encoder", params)
        self.stored, self.cached = overlay.cached(matrix), read_manifest(matrix).dtype
        self.dtype = read_manifest(project.embeddings(system)).dtype
        features = self.gnn.config.edge_features == "cross_encoder"
        self.m_ce = PairEncoder(project.CROSS_ENCODER, params) if features else None
        built = built_nodes(overlay, self.source, self.gnn, self.m_de, self.joint, params)
        self.nodes = QueryNodes(overlay, built, self.source)
        self.inform = Informer(self.gnn, self.nodes, self.m_ce, params)
        self._k = count_rows(self.source.edges) // count_rows(
            self.source.queries
        )  # of the built graph: every query has k
        self.new_links = NO_LINKS  # of the queries that `log` takes in; `passage` is a row among all

    def add(self, passages: pl.DataFrame, old: Rows) -> Made:
        """Encode, link, inform."""
        cached = self.m_de.passages(passages["title"].to_list(), passages["text"].to_list()).astype(self.cached)
        if self.gnn.config.graph == "self_loops":
            return self._informed(passages, cached, NO_LINKS)
        versions = [self._links_of(rows) for rows in (old, self._built(passages["pid"]))]
        before = pl.concat([links.select("query", "passage") for links in versions])
        labels = self._labels_of(passages["pid"])
        links = queries_of(self.nodes, cached.astype(np.float32), labels, before)
        if not self.params.encode_corpus.labelled_edges:
            links = links.join(labels, on=["query", "passage"], how="anti")
        return self._informed(passages, cached, links)

    def remake(self, passages: pl.DataFrame, rows: Rows) -> Made:
        """Inform passages by their queries so far and by the new ones."""
        place = pl.DataFrame({"row": rows}).with_row_index("place")
        new = self.new_links.join(place, left_on=pl.col("passage").cast(pl.Int64), right_on="row")
        new = new.with_columns(passage=pl.col("place").cast(pl.Int32)).select(LINKS.names)
        return self._informed(passages, self.stored.take(rows), pl.concat([self._links_of(rows), new]))

    def _informed(self, passages: pl.DataFrame, cached: NDArray[Any], links: pl.DataFrame) -> Made:
        h_p = cached.astype(np.float32)
        if self.joint is not self.m_de:
            h_p = self.joint.passages(passages["title"].to_list(), passages["text"].to_list())
        vectors, edges = self.inform(passages, h_p, links)
        return Made(vectors=vectors.astype(self.dtype).astype(np.float32), cached=cached, edges=edges)

    @staticmethod
    def _built(pids: pl.Series) -> Rows:
        """The rows that ids have in the built index, deleted or not, -1 where they have none. *Shape:* (b,)."""
        found = pl.DataFrame({"pid": pids}).join(built_rows(pids), on="pid", how="left", maintain_order="left")
        return found["row"].cast(pl.Int64).fill_null(-1).to_numpy()

    def _labels_of(self, pids: pl.Series) -> pl.DataFrame:
        """What nodes are labelled with, as `LABELS`, `passage` a row of `pids`."""
        rows = pl.DataFrame({"pid": pids, "row": self._built(pids)}).with_row_index("place")
        rows = rows.with_columns(pl.col("place", "row").cast(pl.Int32))
        built = self.nodes.labels_of(rows["row"].to_numpy()).join(rows, left_on="passage", right_on="row")
        logged = logged_pairs(self.overlay, pids).join(rows, on="pid")
        logged = logged.with_columns(pl.col("query") + len(self.nodes.parts[0]), asked=pl.lit(True))
        return pl.concat([one.select("query", passage="place", asked="asked") for one in (built, logged)])

    def _links_of(self, rows: Rows) -> pl.DataFrame:
        """The edges that passages have, as `LINKS`, `passage` a place in `rows`. Rows of -1 have none."""
        found = [NO_LINKS]
        for segment, within, places in self.overlay.by_segment(rows):
            links = self.nodes.edges_of(within) if segment is None else segment.edges_of(within)
            here = pl.DataFrame({"row": within, "place": places}, schema={"row": pl.Int32, "place": pl.Int32})
            found.append(links.join(here, left_on="passage", right_on="row").with_columns(passage="place"))
        return pl.concat([links.select(LINKS.names) for links in found])

    def known_queries(self) -> pl.LazyFrame:
        """The nodes."""
        tables = pl.scan_parquet(self.source.queries), logged_queries(self.overlay)
        return pl.concat([table.select("text") for table in tables])

    def log(self, queries: Log, folder: Path) -> Rows:
        """Add queries as nodes, and name the passages that they retrieve."""
        texts, pairs = queries.queries["text"], self._with_rows(queries.pairs)
        shape, first = (len(texts), self.overlay.manifest.dimension), self.nodes.size
        with (
            matrix_writer(folder / M_DE, shape, "float32") as asked,
            matrix_writer(folder / H_Q, shape, "float32") as encoded,
            matrix_writer(folder / H_Q_PRIME, shape, "float32") as informed,
            matrix_writer(folder / REACH, (len(texts), 2), "float32") as needed,
            tqdm(total=len(texts), desc="log", unit=" queries", disable=None) as bar,
        ):
            for start in range(0, len(texts), LOGGED_AT_A_TIME):
                some = texts[start : start + LOGGED_AT_A_TIME]
                own = pairs.filter(pl.col("query").is_between(start, start + len(some) - 1))
                arrays = self._nodes(some, own.with_columns(pl.col("query") - start), first + start)
                for file, values in zip((asked, encoded, informed, needed), arrays, strict=True):
                    append(file, values, "float32")
                bar.update(len(some))
        self.nodes.append(folder)
        return self.new_links["passage"].unique().sort().cast(pl.Int64).to_numpy()

    def _with_rows(self, pairs: pl.DataFrame) -> pl.DataFrame:
        """Columns query, passage: a row among all."""
        found = pairs.join(self.overlay.find(pairs["pid"]), on="pid")
        return found.select(pl.col("query").cast(pl.Int32), passage=pl.col("row").cast(pl.Int32))

    def _nodes(self, texts: pl.Series, pairs: pl.DataFrame, first: int) -> tuple[Matrix, Matrix, Matrix, Matrix]:
        """New nodes, numbered from `first` on, as their part holds them; their edges are added to `new_links`."""
        asked = self.m_de.queries(texts.to_list())
        h_q = asked if self.joint is self.m_de else self.joint.queries(texts.to_list())
        rows, scores = passages_of(self.overlay, self.source.base, asked, self._k)
        rows, scores, labelled = self._labelled_first(rows, scores, pairs, asked)
        kept = (rows >= 0) & (~labelled | self.params.encode_corpus.labelled_edges)
        if self.gnn.config.graph != "self_loops":
            query = np.broadcast_to(first + np.arange(len(rows))[:, None], rows.shape)
            columns = dict(zip(LINKS.names, (query[kept], rows[kept], scores[kept], labelled[kept]), strict=True))
            self.new_links = pl.concat([self.new_links, pl.DataFrame(columns).cast(NO_LINKS.schema)])
        needed = reach(scores[:, -1], labelled[:, -1], first=self.params.build_graph.labelled)
        return asked, h_q, self._interactive(texts, h_q, rows, kept), needed

    def _labelled_first(
        self, rows: Rows, scores: Matrix, pairs: pl.DataFrame, asked: Matrix
    ) -> tuple[Rows, Matrix, NDArray[np.bool_]]:
        """Passages that queries are labelled with come first, as in the built graph. *Shape:* (n, k) each."""
        if self.params.build_graph.labelled and len(pairs):
            known = np.unique(np.concatenate([rows.reshape(-1), pairs["passage"].to_numpy()]))
            places = pl.Series("passage", np.searchsorted(known, pairs["passage"].to_numpy()), dtype=pl.Int32)
            vectors = self.stored.take(np.maximum(known, 0)).astype(np.float32)  # where fewer than k are live: a -1
            found, scores = labelled_first(
                np.searchsorted(known, rows), scores, pairs.with_columns(places), asked, vectors
            )
            rows = known[found]
        keys = pairs["query"].to_numpy().astype(np.int64) * self.overlay.rows + pairs["passage"].to_numpy()
        return rows, scores, np.isin(np.arange(len(rows))[:, None] * self.overlay.rows + rows, keys) & (rows >= 0)

    @torch.no_grad()
    def _interactive(self, texts: pl.Series, h_q: Matrix, rows: Rows, kept: NDArray[np.bool_]) -> Matrix:
        """h'_q (Eq. 6, 7). *Shape:* h_q (n, d), rows and kept (n, k) -> (n, d)."""
        wanted, place = np.unique(np.maximum(rows, 0), return_inverse=True)
        place = place.reshape(rows.shape)
        features = loops = None
        if self.m_ce is not None:
            asked, told = texts.to_list(), passage_texts(self.m_ce, self.overlay.texts(wanted))
            itself = np.arange(len(asked))
            edges = self.m_ce.features(asked, told, (np.repeat(itself, rows.shape[1]), place.reshape(-1)))
            features = to_tensor(edges.reshape(*rows.shape, -1))
            loops = to_tensor(self.m_ce.features(asked, asked, (itself, itself)))
        informed = self.gnn.interactive_queries(
            to_tensor(h_q),
            to_tensor(self.stored.take(wanted)[place]),
            edge_features=features,
            loop_features=loops,
            keep=None if kept.all() else torch.from_numpy(kept).to(device()),
        )
        return informed.cpu().numpy()
