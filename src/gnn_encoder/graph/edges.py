"""M_ce's embeddings of the edges and self-loops of a graph (section 3.2)."""

from pathlib import Path

import numpy as np

from gnn_encoder.base.matrix import Rows
from gnn_encoder.base.tables import edge_features, loop_features
from gnn_encoder.graph.structure import Graph
from gnn_encoder.text.cross_encoder import CrossEncoder, embed_pairs
from gnn_encoder.text.inputs import Inputs
from gnn_encoder.text.tokens import TextTokens


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
    to itself alone, with weight 1 whatever the feature.

    Args:
        queries: the texts of the nodes.
        folder: scratch folder; parts that an interrupted run finished there are kept.
        max_length: most tokens of a pair.
    """
    query, passage = np.repeat(np.arange(graph.n), graph.k), graph.passages.reshape(-1)
    retrieved = np.unique(passage)
    pairs = Inputs.pairs(queries, query, passages, passage, model.template, max_length)
    columns: dict[str, Rows] = {"query": query, "passage": passage}
    schema = edge_features(model.dimension)
    embed_pairs(model, pairs, folder / "edges", columns, schema, batch_tokens=batch_tokens)
    schema = loop_features(model.dimension)
    for name, tokens, ends in (
        ("query_loops", queries, np.arange(len(queries))),
        ("passage_loops", passages, retrieved),
    ):
        loops = Inputs.pairs(tokens, ends, tokens, ends, model.template, max_length)
        embed_pairs(model, loops, folder / name, {"node": ends}, schema, batch_tokens=batch_tokens)
