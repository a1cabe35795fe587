"""mine_candidates: the top passages of every training query by the first retriever (section 3.4)."""

import polars as pl

from gnn_encoder.core.identical import Identical
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.records import CANDIDATES
from gnn_encoder.core.storage.tables import candidates_table, write_table
from gnn_encoder.index.exact import exact_top_k
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.opening import embed_table
from gnn_encoder.pipeline.stage import Stage, run


def main(stage: Stage) -> None:
    """Search the first retriever's passage matrix, exactly."""
    depth = stage.params.mine_candidates.depth
    queries = embed_table("retriever", project.queries("train"), stage.params.encoder)
    found = exact_top_k(project.embeddings("retriever"), queries, depth, name="mine_candidates.depth")
    identical, pairs = Identical.read(project.IDENTICAL, "train"), relevant_pairs(*project.tables("train"))
    table = identical.distinct(pl.DataFrame(candidates_table(*found)), pairs)
    write_table(stage.scratch / project.CANDIDATES.name, CANDIDATES, [table.to_arrow()])


if __name__ == "__main__":
    run(main)
