"""encode_views SYSTEM: the matrix of views: each passage encoded with each of its generated queries (Eq. 10)."""

from gnn_encoder.dual_cross.views import open_views, write_means
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.text.corpus import encode_corpus, load_encoder, open_passages, open_queries, origin_of


def main(stage: Stage) -> None:
    """Encode every passage with each of its generated queries, and alone if that is a view too.

    Where a passage's score is the mean of its views', its vector is their mean; the views then stand in `views/`.
    """
    params, section, model = stage.params, stage.params.dual_cross, project.encoder(stage.key)
    encoder, dtype = load_encoder(model, params.encoder), params.cache_passages.dtype
    views = open_views(encoder, open_queries(project.GENERATED_QUERIES, encoder), open_passages(encoder), section)
    origin = origin_of(model, project.PASSAGES, project.GENERATED)
    matrix = stage.scratch / "views" if section.pool == "mean" else stage.scratch
    encode_corpus(
        encoder,
        views.inputs,
        matrix,
        dtype=dtype,
        batch_tokens=params.encoder.batch_tokens,
        origin=origin,
        views=views.count,
    )
    if section.pool == "mean":
        write_means(matrix, stage.scratch, views.pool, dtype=dtype, origin=origin)


if __name__ == "__main__":
    run(main, shared=True)
