"""M_ce's embeddings of the edges and self-loops of a graph (section 3.2)."""

from pathlib import Path

import numpy as np
import polars as pl

from gnn_encoder.core.records import edge_features, loop_features
from gnn_encoder.core.rows import Rows
from gnn_encoder.core.storage.tables import read_candidates
from gnn_encoder.encoding.pairs import Known, Pairs, embed_pairs
from gnn_encoder.encoding.texts import open_passages, open_queries
from gnn_encoder.graph.artifacts import GraphArtifacts
from gnn_encoder.models.cross_encoder import CrossEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params


def embed_graph(source: GraphArtifacts, folder: Path, params: Params, *, around: GraphArtifacts | None = None) -> None:
    """Write the features of the edges, in the order of the edges table, and of the self-loops.

    All queries have a self-loop feature, but only those passages that some query retrieved. Any other passage attends
    to itself alone, with weight 1 whatever the feature.

    Args:
        folder: scratch folder; parts that an interrupted run finished there are kept.
        around: another graph whose features come from the same M_ce. Edges and nodes that both graphs have take over
            their features from it.
    """
    edges = read_candidates(source.edges)
    retrieved = np.unique(edges["passage"])
    known = _shared(source, around, edges, retrieved) if around is not None else {}
    model = CrossEncoder.load(project.CROSS_ENCODER, precision=params.encoder.precision).for_inference()
    queries, passages = open_queries(source.queries, model), open_passages(model)
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


def _shared(
    source: GraphArtifacts, around: GraphArtifacts, edges: dict[str, Rows], retrieved: Rows
) -> dict[str, Known]:
    """The features of the graph `around` that `source` takes over, by the name of their table."""
    stored = read_candidates(around.edges)
    own, others = source.nodes(), around.nodes()
    features = around.open_features()
    assert isinstance(features.edges, np.ndarray), "cut to no k"
    # Graphs of the same training queries number these alike, and then the unlabelled ones; generated ones may differ.
    node = np.arange(len(own))
    node[min(own.asked, others.asked) if own.training == others.training else 0 :] = -1
    return {
        "edges": Known(features.edges, _rows_of(stored, node[edges["query"]], edges["passage"])),
        "query_loops": Known(features.query_loops, node),
        "passage_loops": Known(features.passage_loops, features.loop_row[retrieved]),
    }


def _rows_of(edges: dict[str, Rows], query: Rows, passage: Rows) -> Rows:
    """The row of each pair in an edges table, -1 if the table does not hold it. *Shape:* (n,), (n,) -> (n,)."""
    ends = {"query": pl.Int32, "passage": pl.Int32}
    stored = pl.DataFrame({name: edges[name] for name in ends}, schema=ends).with_row_index("row")
    asked = pl.DataFrame({"query": query, "passage": passage}, schema_overrides=ends)
    found = asked.join(stored, on=list(ends), how="left", maintain_order="left")["row"]
    return found.cast(pl.Int64).fill_null(-1).to_numpy()
