"""train_cross_encoder: M_ce, on labelled positives against the first retriever's candidates (section 3.4)."""

from functools import partial

from gnn_encoder.base import distributed
from gnn_encoder.base.judgements import Identical, relevant_pairs
from gnn_encoder.base.tables import CANDIDATES, write_table
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.search.exact import exact_top_k
from gnn_encoder.text.corpus import embed_table
from gnn_encoder.train.candidates import find_candidates
from gnn_encoder.train.cross_encoder import train_cross_encoder


def main(stage: Stage) -> None:
    """Mine the top passages of every training query, by exact search of the retriever's matrix; train on them."""
    params, candidates = stage.params, stage.scratch / project.CANDIDATES.name
    depth, matrix = params.mine_candidates.depth, project.embeddings("retriever")
    queries = embed_table("retriever", project.queries("train"), params.encoder)
    find = partial(exact_top_k, matrix, k=depth, name="mine_candidates.depth")
    identical, pairs = Identical.read(project.IDENTICAL, "train"), relevant_pairs(*project.tables("train"))
    found = find_candidates(find, queries, stage.work / "mined", identical, pairs, label="mine candidates")
    write_table(candidates, CANDIDATES, found)
    distributed.barrier()
    own = params.train_cross_encoder, "train_cross_encoder", params, stage.scratch
    train_cross_encoder(*own, "cross_encoder", candidates=candidates)


if __name__ == "__main__":
    run(main, shared=True)
