"""build_graph GRAPH: the queries that are nodes, and their edges to k passages, the best by M_de (section 3.2)."""

from functools import partial
from pathlib import Path

import pyarrow as pa

from gnn_encoder.base import distributed
from gnn_encoder.base.judgements import NO_PAIRS, Identical, relevant_pairs
from gnn_encoder.base.matrix import open_matrix
from gnn_encoder.base.tables import CANDIDATES, UNLABELLED, candidates_table, count_rows, write_table
from gnn_encoder.graph.labelled import labelled_first
from gnn_encoder.graph.nodes import NODES, Chosen, draw, read_nodes, write_nodes
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.candidates import find_candidates
from gnn_encoder.pipeline.opening import embed_table
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.search.exact import exact_top_k


def main(stage: Stage) -> None:
    """Write the nodes, search M_de's passage matrix with them, and write the passages found as edges.

    With `build_graph.labelled` a query's labelled passages are among them in any case, and come first.
    """
    params, item = stage.params, stage.item
    generated = project.GENERATED / "queries.parquet" if item["nodes"] != "training" else None

    def chosen(table: Path, size: int | None) -> Chosen:
        return Chosen(table, draw(count_rows(table), size, params.seed))

    write_nodes(
        stage.scratch,
        training=project.queries("train") if item["nodes"] != "generated" else None,
        unlabelled=chosen(project.queries(UNLABELLED), params.build_graph.unlabelled),
        generated=chosen(generated, params.build_graph.generated) if generated else None,
        views=max(1, count_rows(generated) // count_rows(project.PASSAGES)) if generated else 1,
    )
    distributed.barrier()  # the first rank has written them
    base, k = project.embeddings(item["base"]), params.value(item["k"])
    queries = embed_table(item["base"], stage.scratch / NODES, params.encoder)
    find = partial(exact_top_k, base, k=k, name=item["k"])
    edges = pa.concat_tables(find_candidates(find, queries, stage.work, Identical(), NO_PAIRS, label="search"))
    if params.build_graph.labelled and distributed.is_first():
        labels = read_nodes(stage.scratch).labelled_pairs(relevant_pairs(*project.tables("train")))
        found = (edges.column(name).to_numpy().reshape(-1, k) for name in ("passage", "score"))
        edges = candidates_table(*labelled_first(*found, labels, queries, open_matrix(base)))
    write_table(stage.scratch / "edges.parquet", CANDIDATES, [edges])


if __name__ == "__main__":
    run(main, shared=True)
