"""The queries of a graph, as adding passages needs them: those of the built graph, then the logged ones.

A node is a query's number among them. Each part has, row by row,

    m_de.npy        E_Q by M_de, which decides what a query retrieves. *Shape:* (n, d)
    h_q.npy         E_Q by the encoder that was trained together with the GNN. *Shape:* (n, d)
    h_q_prime.npy   h'_q (Eq. 6, 7), which informs passages. *Shape:* (n, d)
    reach.npy       the score by M_de that a passage needs to enter the query's k passages, and the score that a passage
                    needs which the query is labelled with. *Shape:* (n, 2)

The part of the built graph is computed once for each build, and further holds `edges.parquet` and `labels.parquet`.
What stands in the edges of a query decides its h'_q. That is why h'_q stays as it is when passages come and go: the new
passage listens to its queries, and the queries will listen to it in the next build.
"""

import os
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import torch
from numpy.typing import NDArray

from gnn_encoder.core.judgements import pair_keys, relevant_pairs
from gnn_encoder.core.records import QUERIES
from gnn_encoder.core.storage.tables import write_table
from gnn_encoder.encoding.corpus import embed_queries
from gnn_encoder.encoding.texts import open_queries
from gnn_encoder.graph.artifacts import GraphArtifacts, deployed_neighbourhood
from gnn_encoder.graph.network import QueryPassageGNN
from gnn_encoder.growing.encoding import Matrix, TextEncoder
from gnn_encoder.growing.overlay import NODES, Overlay
from gnn_encoder.growing.segment import H_Q, H_Q_PRIME, LOGGED, M_DE, REACH
from gnn_encoder.index.search import TableRows
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params

Rows = NDArray[np.int64]
LINKS = pa.schema([("query", pa.int32()), ("passage", pa.int32()), ("score", pa.float32()), ("labelled", pa.bool_())])
# What nodes are labelled with, and what generated nodes were generated from: nobody has asked these.
LABELS = pa.schema([("query", pa.int32()), ("passage", pa.int32()), ("asked", pa.bool_())])


@dataclass(frozen=True)
class Part:
    """Nodes that stand together on disk. `first`: the number of the first one."""

    first: int
    folder: Path
    texts: TableRows

    @cached_property
    def reach(self) -> NDArray[np.float32]:
        """*Shape:* (n, 2)."""
        return self.matrix(REACH)

    def matrix(self, name: str) -> NDArray[np.float32]:
        """One of its arrays, mapped. *Shape:* (n, any)."""
        found: NDArray[np.float32] = np.load(self.folder / name, mmap_mode="r")
        return found

    def __len__(self) -> int:
        return len(self.texts)


class QueryNodes:
    """All nodes of a state.

    Args:
        built: folder of the built graph's part.
        source: the built graph.
    """

    def __init__(self, overlay: Overlay, built: Path, source: GraphArtifacts) -> None:
        self.built = built
        self.parts = [Part(0, built, TableRows(source.queries, QUERIES))]
        n = len(self.parts[0])
        for segment in overlay.segments:
            if segment.entry.queries:
                self.parts.append(Part(n + segment.first_query, segment.folder, TableRows(segment.queries, LOGGED)))
        self.size = n + overlay.queries

    def append(self, folder: Path) -> None:
        """Take in the nodes of a segment that is being written."""
        self.parts.append(Part(self.size, folder, TableRows(folder / "queries.parquet", LOGGED)))
        self.size += len(self.parts[-1])

    def take(self, name: str, nodes: Rows) -> Matrix:
        """Rows of one of the arrays. *Shape:* (u,) -> (u, any)."""
        columns = 2 if name == REACH else self.parts[0].matrix(name).shape[1]
        found = np.empty((len(nodes), columns), dtype=np.float32)
        for part, places in self._by_part(nodes):
            found[places] = part.matrix(name)[nodes[places] - part.first]
        return found

    def texts(self, nodes: Rows) -> list[str]:
        """What was asked. *Shape:* (u,)."""
        found = [""] * len(nodes)
        for part, places in self._by_part(nodes):
            rows = part.texts.take(nodes[places] - part.first)
            for place, row in zip(places.tolist(), rows, strict=True):
                found[place] = row["text"]
        return found

    def _by_part(self, nodes: Rows) -> list[tuple[Part, Rows]]:
        last = [*(part.first for part in self.parts[1:]), self.size]
        ends = zip(self.parts, last, strict=True)
        return [(part, np.flatnonzero((nodes >= part.first) & (nodes < end))) for part, end in ends]

    def edges_of(self, rows: Rows) -> pl.DataFrame:
        """Edges of passages of the built index, as `LINKS`, with their rows as `passage`. *Shape:* rows (b,)."""
        return _rows_of(self.built / "edges.parquet", rows)

    def labels_of(self, rows: Rows) -> pl.DataFrame:
        """The labels of passages of the built index, as `LABELS`. *Shape:* rows (b,)."""
        return _rows_of(self.built / "labels.parquet", rows)


def _rows_of(table: Path, rows: Rows) -> pl.DataFrame:
    wanted = pl.Series(rows, dtype=pl.Int32).unique().implode()
    return pl.scan_parquet(table).filter(pl.col("passage").is_in(wanted)).collect(engine="streaming")


def built_nodes(
    overlay: Overlay,
    source: GraphArtifacts,
    gnn: QueryPassageGNN,
    m_de: TextEncoder,
    joint: TextEncoder,
    params: Params,
) -> Path:
    """The folder of the built graph's part, which is computed on first use: E_Q and Eq. 6, 7 of all its queries."""
    folder = overlay.folder / f"{NODES}{overlay.manifest.index}"
    if not folder.exists():
        partial = folder.with_name(f".{folder.name}.{os.getpid()}")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        _write_embeddings(partial, source, gnn, m_de, joint, params)
        _write_edges(partial, source, params)
        partial.rename(folder)
    return folder


@torch.no_grad()
def _write_embeddings(
    folder: Path,
    source: GraphArtifacts,
    gnn: QueryPassageGNN,
    m_de: TextEncoder,
    joint: TextEncoder,
    params: Params,
) -> None:
    def embedded(one: TextEncoder) -> Matrix:
        return embed_queries(one.encoder, open_queries(source.queries, one.encoder), params.encoder.batch_tokens)

    asked = embedded(m_de)
    h_q = asked if joint is m_de else embedded(joint)
    near = deployed_neighbourhood(source, gnn.config, params)
    informed = near.interactive_queries(gnn, np.arange(len(h_q)), torch.from_numpy(h_q).to(near.device))
    for name, values in ((M_DE, asked), (H_Q, h_q), (H_Q_PRIME, informed.cpu().numpy())):
        np.save(folder / name, values)


def _write_edges(folder: Path, source: GraphArtifacts, params: Params) -> None:
    """Write `edges.parquet`, sorted by passage, `labels.parquet` and `reach.npy`."""
    graph, nodes = source.open(), source.nodes()
    pairs = nodes.labelled_pairs(relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES))
    asked = pl.col("query") < nodes.training
    known = graph.labelled_edges(pair_keys(pairs, graph.m))
    edges = pl.DataFrame(
        {
            "query": np.repeat(np.arange(graph.n, dtype=np.int32), graph.k),
            "passage": graph.passages.reshape(-1),
            "score": graph.score.reshape(-1),
            "labelled": graph.labelled_edges(pair_keys(pairs.filter(asked), graph.m)),
        }
    )
    if not params.encode_corpus.labelled_edges:
        edges = edges.filter(pl.Series(~known))
    write_table(folder / "edges.parquet", LINKS, [edges.sort("passage").to_arrow()])
    write_table(folder / "labels.parquet", LABELS, [pairs.with_columns(asked=asked).sort("passage").to_arrow()])
    last = graph.score.reshape(graph.n, graph.k)[:, -1], known.reshape(graph.n, graph.k)[:, -1]
    np.save(folder / REACH, reach(*last, first=params.build_graph.labelled))


def reach(score: NDArray[np.float32], labelled: NDArray[np.bool_], *, first: bool) -> NDArray[np.float32]:
    """What a passage has to score to enter a query's k passages, by those of its last one.

    Args:
        score: M_de's score of the last passage. *Shape:* (n,).
        labelled: whether the query is labelled with it, or was generated from it. *Shape:* (n,).
        first: whether passages that the query is labelled with come first, whatever their score.

    *Shape:* (n, 2), for others, and for passages that the query is labelled with.
    """
    if not first:
        return np.stack([score, score], axis=1)
    return np.stack([np.where(labelled, np.inf, score), np.where(labelled, score, -np.inf)], axis=1).astype(np.float32)
