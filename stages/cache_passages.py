"""cache_passages SYSTEM: the matrix of a dual-encoder's passage embeddings (that of M_de is read by Eq. 6)."""

from gnn_encoder.encoding.matrix import origin_of, same_encoder, write_matrix
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run


def main(stage: Stage) -> None:
    """Encode every passage, or copy the matrix of the system that training started from, if no weight has changed."""
    model = project.encoder(stage.key)
    encoder = DualEncoder.load(model, precision=stage.params.encoder.precision).for_inference()
    before = [path for path in stage.inputs if path.parent == project.EMBEDDINGS]
    encoded = same_encoder(model, before[0]) if before else None
    origin = origin_of(model, project.PASSAGES)
    write_matrix(encoder, stage.scratch, stage.params, origin=origin, encoded=encoded)


if __name__ == "__main__":
    run(main, shared=True)
