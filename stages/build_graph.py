"""build_graph: the queries that are nodes, and their edges to k passages, the best by M_de (section 3.2)."""

from functools import partial

import numpy as np
import pyarrow as pa

from gnn_encoder.base import distributed
from gnn_encoder.base.judgements import NO_PAIRS, Identical, relevant_pairs
from gnn_encoder.base.matrix import open_matrix
from gnn_encoder.base.tables import CANDIDATES, UNLABELLED, candidates_table, count_rows, write_table
from gnn_encoder.gnn.graph import EDGES, VECTORS, labelled_first, write_nodes
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.search.exact import array_top_k
from gnn_encoder.text.corpus import embed_queries, load_encoder
from gnn_encoder.train.candidates import find_candidates
from gnn_encoder.train.examples import draw


def main(stage: Stage) -> None:
    """Write the nodes and, as edges, what they find; with `mgt.labels` labelled passages come first."""
    params, unlabelled = stage.params, project.queries(UNLABELLED)
    rows = draw(count_rows(unlabelled), params.build_graph.unlabelled, params.seed)
    write_nodes(stage.scratch, training=project.queries("train"), unlabelled=unlabelled, rows=rows)
    distributed.barrier()  # the first rank has written them
    matrix, k = open_matrix(project.embeddings(project.REFERENCE)), params.build_graph.k
    encoder = load_encoder(project.encoder(project.REFERENCE), params.encoder)
    queries = embed_queries(encoder, stage.scratch / project.NODES.name, params.encoder.batch_tokens)
    if distributed.is_first():
        np.save(stage.scratch / VECTORS, queries)
    find = partial(array_top_k, matrix, k=k, name="build_graph.k")
    edges = pa.concat_tables(find_candidates(find, queries, stage.work, Identical(), NO_PAIRS, label="search"))
    if params.mgt.labels and distributed.is_first():
        passages, scores = (edges.column(name).to_numpy().reshape(-1, k) for name in ("passage", "score"))
        pairs = relevant_pairs(*project.tables("train"))
        edges = candidates_table(*labelled_first(passages, scores, pairs, queries, matrix))
    write_table(stage.scratch / EDGES, CANDIDATES, [edges])


if __name__ == "__main__":
    run(main, shared=True)
