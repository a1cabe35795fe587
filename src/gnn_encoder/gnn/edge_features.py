"""M_ce's embeddings of the edges and self-loops of a graph (section 3.2).

The stage embed_edges writes them as Parquet parts, which are unpacked once into memory-mapped arrays.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import SCRATCH, cached, fingerprint
from gnn_encoder.base.matrix import Rows, release, write_header
from gnn_encoder.base.tables import count_rows, edge_schema, loop_schema, open_parquet
from gnn_encoder.gnn.graph import Graph
from gnn_encoder.pipeline import project
from gnn_encoder.text.batches import Inputs
from gnn_encoder.text.cross_encoder import CrossEncoder, embed_pairs
from gnn_encoder.text.tokens import TextTokens

Features = NDArray[np.float16]
KINDS = ("edges", "query_loops", "passage_loops")


@dataclass(frozen=True)
class EdgeFeatures:
    """Cross-encoder embeddings h_{x-y}, mapped from disk."""

    edges: Features  # (n * k, d_e), rows as in the edges table
    query_loops: Features  # (n, d_e)
    passage_loops: Features  # (passages that some query retrieved, d_e)
    loop_row: NDArray[np.int32]  # (m,), each passage's row of passage_loops; -1 where no query retrieved the passage

    def of_passage_loops(self, passages: Rows) -> Features:
        """Self-loop features of some passages. *Shape:* (b,) -> (b, d_e).

        Passages that no query retrieved get zeros: the feature has no effect there.
        """
        rows = self.loop_row[passages]
        found = np.asarray(self.passage_loops[np.maximum(rows, 0)])
        found[rows < 0] = 0
        return found

    def release(self) -> None:
        """Give back the memory of what was read."""
        release(self.edges, self.query_loops, self.passage_loops)


def embed_graph(
    model: CrossEncoder,
    graph: Graph,
    queries: TextTokens,
    passages: TextTokens,
    folder: Path,
    *,
    max_length: int,
    batch_tokens: int,
) -> None:
    """Write the features of the edges, in the order of the edges table, and of the self-loops.

    All queries have a self-loop feature, but only those passages that some query retrieved. Any other passage attends
    to itself alone, with weight 1 whatever the feature. Parts that an interrupted run left in `folder` are kept.
    """
    query, passage = np.repeat(np.arange(graph.n), graph.k), graph.passages.reshape(-1)
    pairs = Inputs.pairs(queries, query, passages, passage, model.template, max_length)
    columns: dict[str, Rows] = {"query": query, "passage": passage}
    schema = edge_schema(model.dimension)
    embed_pairs(model, pairs, folder / "edges", columns, schema, batch_tokens=batch_tokens)
    schema = loop_schema(model.dimension)
    nodes = ("query_loops", queries, np.arange(len(queries))), ("passage_loops", passages, np.unique(passage))
    for name, tokens, ends in nodes:
        loops = Inputs.pairs(tokens, ends, tokens, ends, model.template, max_length)
        embed_pairs(model, loops, folder / name, {"node": ends}, schema, batch_tokens=batch_tokens)


def open_features(system: str, graph: Graph) -> EdgeFeatures:
    """Map the features of a system's graph, unpacking them on first use."""
    folder = project.edge_features(system)
    unpacked = cached(SCRATCH / "unpacked_features", folder.name, fingerprint(folder), partial(_unpack, folder), keep=1)
    edges, queries, passages = (np.load(unpacked / f"{name}.npy", mmap_mode="r") for name in KINDS)
    if len(edges) != graph.n * graph.k or len(queries) != graph.n:
        held, has = f"{len(edges)} edges and {len(queries)} queries", f"{graph.n * graph.k} edges and {graph.n} queries"
        raise UserError(f"{folder}: holds features of {held}, but the graph has {has}; run embed_edges again")
    loop_row = np.full(graph.m, -1, dtype=np.int32)
    nodes = np.load(unpacked / "nodes.npy")
    loop_row[nodes] = np.arange(len(nodes), dtype=np.int32)
    return EdgeFeatures(edges, queries, passages, loop_row)


def _unpack(folder: Path, target: Path) -> None:
    for kind in KINDS:
        parts = sorted((folder / kind).glob("part-*.parquet"))
        if not parts:
            cure = "embed_edges makes them where mgt.edge_features is cross_encoder; set it, and run embed_edges again"
            raise UserError(f"{folder / kind}: holds no features: {cure}")
        dimension = open_parquet(parts[0]).schema_arrow.field("feature").type.list_size
        with (target / f"{kind}.npy").open("wb") as file:
            write_header(file, np.dtype(np.float16), (sum(count_rows(part) for part in parts), dimension))
            for part in parts:
                for batch in open_parquet(part).iter_batches(columns=["feature"]):
                    block = batch.column("feature").flatten().to_numpy()
                    if not np.isfinite(block).all():
                        cure = "run train_cross_encoder and embed_edges again"
                        raise UserError(f"{part}: an edge feature is NaN or infinite; {cure}")
                    file.write(np.ascontiguousarray(block, dtype=np.float16).data)
    # Of passages only those have a loop that some query retrieved: the last kind's nodes.
    nodes = [pq.read_table(part, columns=["node"]).column("node").to_numpy() for part in parts]
    np.save(target / "nodes.npy", np.concatenate(nodes))
