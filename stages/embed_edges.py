"""embed_edges SYSTEM: M_ce's [CLS] embedding of every edge and of the self-loops that can matter (section 3.2)."""

import sys

import numpy as np
import polars as pl

from gnn_encoder.core import project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.records import edge_features, loop_features
from gnn_encoder.core.stage import output, run
from gnn_encoder.core.storage.tables import read_candidates
from gnn_encoder.encoders.cross_encoder import CrossEncoder
from gnn_encoder.encoders.pairs import Pairs, embed_pairs
from gnn_encoder.encoders.texts import open_passages, open_queries
from gnn_encoder.graph.nodes import QUESTIONS


def main() -> None:
    """Edges in the edges table's order; loops of every question, and of passages that some question retrieved.

    A passage that no question retrieved attends to itself alone: the softmax over one edge is 1 whatever its feature.
    """
    params = load_params()
    system = project.gnn_system(project.chosen(sys.argv[1:], project.GRAPHS), params)
    inputs = [project.PASSAGES, system.nodes, system.graph, project.CROSS_ENCODER]
    sections = {"max_length": params.train_cross_encoder.max_length, "precision": params.encoder.precision}
    with output(system.edge_features, inputs, sections) as scratch:
        edges = read_candidates(system.graph / "edges.parquet")
        model = CrossEncoder.load(project.CROSS_ENCODER, precision=params.encoder.precision).for_inference()
        queries, passages = open_queries(system.nodes / QUESTIONS, model), open_passages(model)
        limits = {"max_length": params.train_cross_encoder.max_length, "batch_tokens": params.encoder.batch_tokens}
        columns = {"query": edges["query"], "passage": edges["passage"]}
        pairs = Pairs(first=queries, first_rows=edges["query"], second=passages, second_rows=edges["passage"])
        embed_pairs(model, pairs, scratch / "edges", columns, edge_features(model.dimension), **limits)
        retrieved = pl.Series(edges["passage"]).unique().sort().to_numpy()
        for name, tokens, nodes in (
            ("query_loops", queries, np.arange(len(queries))),
            ("passage_loops", passages, retrieved),
        ):
            loops = Pairs(first=tokens, first_rows=nodes, second=tokens, second_rows=nodes)
            embed_pairs(model, loops, scratch / name, {"node": nodes}, loop_features(model.dimension), **limits)


if __name__ == "__main__":
    run(main)
