"""build_index SYSTEM: the FAISS index of a system's passage embeddings, which is searched online."""

from gnn_encoder.index.build import build
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run


def main(stage: Stage) -> None:
    """Index the system's passages."""
    factory, seed = stage.params.index.factory, stage.params.seed
    matrix = project.embeddings(stage.key)
    build(matrix, stage.scratch, factory=factory, pids=project.PASSAGES, system=stage.key, seed=seed)


if __name__ == "__main__":
    run(main)
