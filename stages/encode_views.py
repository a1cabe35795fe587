"""encode_views SYSTEM: the matrix of views: each passage encoded with each of its generated queries (Eq. 10)."""

from gnn_encoder.dual_cross.views import open_views, write_means
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.text.corpus import encode_corpus, load_encoder, origin_of


def main(stage: Stage) -> None:
    """Encode the views; where a passage's score is the mean of its views', their mean too: they stand in `views/`."""
    params, section, model = stage.params, stage.params.dual_cross, project.encoder(stage.key)
    encoder, dtype = load_encoder(model, params.encoder), params.cache_passages.dtype
    views, origin = open_views(encoder, section), origin_of(model, project.PASSAGES, project.GENERATED)
    matrix, limit = stage.scratch / "views" if section.pool == "mean" else stage.scratch, params.encoder.batch_tokens
    encode_corpus(encoder, views.inputs, matrix, dtype=dtype, origin=origin, batch_tokens=limit, views=views.count)
    if section.pool == "mean":
        write_means(matrix, stage.scratch, views.pool, dtype=dtype, origin=origin)


if __name__ == "__main__":
    run(main, shared=True)
