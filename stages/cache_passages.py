"""cache_passages SYSTEM: the matrix of a dual-encoder's passage embeddings (that of M_de is read by Eq. 6)."""

from gnn_encoder.encoding.corpus import alone, encode_corpus, origin_of, same_encoder
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.opening import open_passages
from gnn_encoder.pipeline.stage import Stage, run


def main(stage: Stage) -> None:
    """Encode every passage, or copy the matrix of the system that training started from, if no weight has changed."""
    params, model = stage.params, project.encoder(stage.key)
    encoder = DualEncoder.load(model, precision=params.encoder.precision).for_inference()
    before = [path for path in stage.inputs if path.parent == project.EMBEDDINGS]
    encode_corpus(
        encoder,
        alone(encoder, open_passages(encoder)),
        stage.scratch,
        dtype=params.cache_passages.dtype,
        batch_tokens=params.encoder.batch_tokens,
        origin=origin_of(model, project.PASSAGES),
        encoded=same_encoder(model, before[0]) if before else None,
    )


if __name__ == "__main__":
    run(main, shared=True)
