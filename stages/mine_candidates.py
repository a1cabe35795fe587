"""mine_candidates: the top passages of every training query by the first retriever (section 3.4)."""

from functools import partial

from gnn_encoder.base.judgements import Identical, relevant_pairs
from gnn_encoder.base.tables import CANDIDATES, write_table
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.opening import embed_table
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.search.exact import exact_top_k
from gnn_encoder.train.candidates import find_candidates


def main(stage: Stage) -> None:
    """Search the first retriever's passage matrix, exactly."""
    depth, matrix = stage.params.mine_candidates.depth, project.embeddings("retriever")
    queries = embed_table("retriever", project.queries("train"), stage.params.encoder)
    find = partial(exact_top_k, matrix, k=depth, name="mine_candidates.depth")
    identical, pairs = Identical.read(project.IDENTICAL, "train"), relevant_pairs(*project.tables("train"))
    found = find_candidates(find, queries, stage.work, identical, pairs, label="mine candidates")
    write_table(stage.scratch / project.CANDIDATES.name, CANDIDATES, found)


if __name__ == "__main__":
    run(main, shared=True)
