"""index_bm25: BM25's index of the passages, which is searched for runs and by `gnn-encoder search --hybrid`."""

from gnn_encoder.index.bm25 import BM25Index
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run


def main(stage: Stage) -> None:
    """Index the passages."""
    BM25Index.build(project.PASSAGES, stage.params.bm25).save(stage.scratch)


if __name__ == "__main__":
    run(main)
