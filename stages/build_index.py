"""build_index SYSTEM: the FAISS index of a system's passage embeddings, and what it finds for dev and test queries."""

from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.search.faiss_index import build, write_runs
from gnn_encoder.text.corpus import load_encoder


def main(stage: Stage) -> None:
    """Index the system's passages, encode the queries with the system's encoder and search the index."""
    params, system = stage.params, stage.key
    index = stage.unfinished(project.index(system))
    matrix = project.embeddings(system)
    build(matrix, index, factory=params.index.factory, pids=project.PASSAGES, system=system, seed=params.seed)
    encoder = load_encoder(project.encoder(system), params.encoder)
    write_runs(encoder, index, stage.unfinished(project.runs(system)), params)


if __name__ == "__main__":
    run(main)
