"""cache_passages SYSTEM: the matrix of a dual-encoder's passage embeddings (that of M_de is read by Eq. 6)."""

from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.text.corpus import load_encoder, origin_of, same_origin, write_matrix


def main(stage: Stage) -> None:
    """Encode every passage, or copy the matrix of the system that training started from, if no weight has changed."""
    params, model = stage.params, project.encoder(stage.key)
    before = [path for path in stage.inputs if path.parent == project.EMBEDDINGS]
    origin = origin_of(model, project.PASSAGES)
    encoded = same_origin(origin, before[0]) if before else None
    write_matrix(load_encoder(model, params.encoder), stage.scratch, params, origin, encoded=encoded)


if __name__ == "__main__":
    run(main, shared=True)
