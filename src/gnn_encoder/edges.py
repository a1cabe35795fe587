"""M_ce over a graph, from artifacts to the embeddings of its edges and self-loops (section 3.2)."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.core import project
from gnn_encoder.core.params import Params
from gnn_encoder.core.project import GNNSystem
from gnn_encoder.core.records import edge_features, loop_features
from gnn_encoder.core.storage.tables import count_rows, read_candidates
from gnn_encoder.encoders.cross_encoder import CrossEncoder
from gnn_encoder.encoders.pairs import Known, Pairs, embed_pairs
from gnn_encoder.encoders.texts import open_passages, open_queries
from gnn_encoder.graph.features import open_features
from gnn_encoder.graph.nodes import QUESTIONS, read_nodes

Rows = NDArray[np.integer[Any]]


def embed_graph(system: GNNSystem, folder: Path, params: Params, *, other: GNNSystem | None = None) -> None:
    """Write edges in the edges table's order; loops of every question, and of passages that some question retrieved.

    A passage that no question retrieved attends to itself alone: the softmax over one edge is 1 whatever its feature.

    Args:
        folder: scratch folder; parts that an interrupted run finished there are kept.
        other: a graph with features of the same M_ce; those of edges and nodes that both have are taken from it.
    """
    edges = read_candidates(system.graph / "edges.parquet")
    retrieved = np.unique(edges["passage"])
    known = _shared(system, other, edges, retrieved) if other is not None else {}
    model = CrossEncoder.load(project.CROSS_ENCODER, precision=params.encoder.precision).for_inference()
    queries, passages = open_queries(system.nodes / QUESTIONS, model), open_passages(model)
    limits = {"max_length": params.train_cross_encoder.max_length, "batch_tokens": params.encoder.batch_tokens}
    columns = {"query": edges["query"], "passage": edges["passage"]}
    pairs = Pairs(first=queries, first_rows=edges["query"], second=passages, second_rows=edges["passage"])
    schema = edge_features(model.dimension)
    embed_pairs(model, pairs, folder / "edges", columns, schema, known=known.get("edges"), **limits)
    schema = loop_features(model.dimension)
    for name, tokens, nodes in (
        ("query_loops", queries, np.arange(len(queries))),
        ("passage_loops", passages, retrieved),
    ):
        loops = Pairs(first=tokens, first_rows=nodes, second=tokens, second_rows=nodes)
        embed_pairs(model, loops, folder / name, {"node": nodes}, schema, known=known.get(name), **limits)


def _shared(system: GNNSystem, other: GNNSystem, edges: dict[str, Rows], retrieved: Rows) -> dict[str, Known]:
    """The other graph's features, by the name of their table."""
    stored = read_candidates(other.graph / "edges.parquet")
    own, others = read_nodes(system.nodes), read_nodes(other.nodes)
    features = open_features(other.edge_features, len(stored["query"]), len(others), count_rows(project.PASSAGES))
    assert isinstance(features.edges, np.ndarray), "cut to no k"
    # Nodes begin with the training questions, where these are nodes at all.
    same = len(own) if system.nodes == other.nodes else min(own.training, others.training)
    node = np.arange(len(own))
    node[same:] = -1
    return {
        "edges": Known(features.edges, _rows_of(stored, node[edges["query"]], edges["passage"])),
        "query_loops": Known(features.query_loops, node),
        "passage_loops": Known(features.passage_loops, features.loop_row[retrieved]),
    }


def _rows_of(edges: dict[str, Rows], query: Rows, passage: Rows) -> Rows:
    """Where some pairs stand in an edges table, -1 for those that do not. *Shape:* (n,), (n,) -> (n,)."""
    ends = {"query": pl.Int32, "passage": pl.Int32}
    stored = pl.DataFrame({name: edges[name] for name in ends}, schema=ends).with_row_index("row")
    asked = pl.DataFrame({"query": query, "passage": passage}, schema_overrides=ends)
    found = asked.join(stored, on=list(ends), how="left", maintain_order="left")["row"]
    return found.cast(pl.Int64).fill_null(-1).to_numpy()
