"""encode_views SYSTEM: the matrix of views: each passage encoded with each of its generated queries (Eq. 10)."""

from gnn_encoder.dual_cross.views import open_views
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.text.corpus import encode_corpus, load_encoder, origin_of


def main(stage: Stage) -> None:
    """Encode the views."""
    params, model = stage.params, project.encoder(stage.key)
    encoder, origin = load_encoder(model, params.encoder), origin_of(model, project.PASSAGES, project.GENERATED)
    how = {"dtype": params.cache_passages.dtype, "batch_tokens": params.encoder.batch_tokens}
    encode_corpus(encoder, open_views(encoder, params.dual_cross), stage.scratch, origin=origin, **how)


if __name__ == "__main__":
    run(main, shared=True)
