"""M_ce's embeddings of the edges and self-loops of a graph (section 3.2)."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base.matrix import Rows
from gnn_encoder.base.tables import edge_features, loop_features
from gnn_encoder.graph.features import EdgeFeatures
from gnn_encoder.graph.nodes import Nodes
from gnn_encoder.graph.structure import Graph
from gnn_encoder.text.cross_encoder import CrossEncoder, Known, embed_pairs
from gnn_encoder.text.inputs import Inputs
from gnn_encoder.text.tokens import TextTokens


@dataclass(frozen=True, kw_only=True)
class Embedded:
    """A graph whose edges and self-loops the same M_ce has embedded already."""

    graph: Graph
    nodes: Nodes
    features: EdgeFeatures


def embed_graph(
    model: CrossEncoder,
    graph: Graph,
    nodes: Nodes,
    queries: TextTokens,
    passages: TextTokens,
    folder: Path,
    *,
    max_length: int,
    batch_tokens: int,
    around: Embedded | None = None,
) -> None:
    """Write the features of the edges, in the order of the edges table, and of the self-loops.

    All queries have a self-loop feature, but only those passages that some query retrieved. Any other passage attends
    to itself alone, with weight 1 whatever the feature.

    Args:
        queries: the texts of the nodes.
        folder: scratch folder; parts that an interrupted run finished there are kept.
        max_length: most tokens of a pair.
        around: another graph. Edges and nodes that both graphs have take over their features from it.
    """
    query, passage = np.repeat(np.arange(graph.n), graph.k), graph.passages.reshape(-1)
    retrieved = np.unique(passage)
    known = _shared(query, passage, retrieved, nodes, around) if around is not None else {}
    pairs = Inputs.pairs(queries, query, passages, passage, model.template, max_length)
    columns: dict[str, Rows] = {"query": query, "passage": passage}
    schema = edge_features(model.dimension)
    embed_pairs(model, pairs, folder / "edges", columns, schema, known=known.get("edges"), batch_tokens=batch_tokens)
    schema = loop_features(model.dimension)
    for name, tokens, ends in (
        ("query_loops", queries, np.arange(len(queries))),
        ("passage_loops", passages, retrieved),
    ):
        loops, own = Inputs.pairs(tokens, ends, tokens, ends, model.template, max_length), known.get(name)
        embed_pairs(model, loops, folder / name, {"node": ends}, schema, known=own, batch_tokens=batch_tokens)


def _shared(query: Rows, passage: Rows, retrieved: Rows, nodes: Nodes, around: Embedded) -> dict[str, Known]:
    """What edges (query, passage) and nodes take over of the graph `around`, by the name of the features' table."""
    features, others = around.features, around.nodes
    assert features.cut is None
    # Graphs of the same training queries number these alike, and then the unlabelled ones; generated ones may differ.
    node = np.arange(len(nodes))
    node[min(nodes.asked, others.asked) if nodes.training == others.training else 0 :] = -1
    return {
        "edges": Known(features.edges, _rows_of(around.graph, node[query], passage)),
        "query_loops": Known(features.query_loops, node),
        "passage_loops": Known(features.passage_loops, features.loop_row[retrieved]),
    }


def _rows_of(graph: Graph, query: Rows, passage: Rows) -> NDArray[np.int64]:
    """The row of each pair among a graph's edges, -1 if it is none of them. *Shape:* (n,), (n,) -> (n,)."""
    ends = {"query": pl.Int32, "passage": pl.Int32}
    own, linked = np.repeat(np.arange(graph.n), graph.k), graph.passages.reshape(-1)
    stored = pl.DataFrame({"query": own, "passage": linked}, schema_overrides=ends)
    asked = pl.DataFrame({"query": query, "passage": passage}, schema_overrides=ends)
    found = asked.join(stored.with_row_index("row"), on=list(ends), how="left", maintain_order="left")["row"]
    return found.cast(pl.Int64).fill_null(-1).to_numpy()
