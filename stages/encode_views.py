"""encode_views SYSTEM: the matrix of views: each passage encoded with each of its generated queries (Eq. 10)."""

from gnn_encoder.core import project
from gnn_encoder.core.stage import Stage, run
from gnn_encoder.dual_cross.views import QUERIES, view_inputs
from gnn_encoder.encoding.corpus import encode_corpus
from gnn_encoder.encoding.matrix import origin_of
from gnn_encoder.encoding.texts import open_passages, open_queries
from gnn_encoder.models.dual_encoder import DualEncoder


def main(stage: Stage) -> None:
    """Encode every pair of a generated query and its passage."""
    params, model = stage.params, project.encoder(stage.key)
    views = params.dual_cross.views
    encoder = DualEncoder.load(model, precision=params.encoder.precision).for_inference()
    encode_corpus(
        encoder,
        view_inputs(encoder, open_queries(QUERIES, encoder), open_passages(encoder), views),
        stage.scratch,
        dtype=params.cache_passages.dtype,
        batch_tokens=params.encoder.batch_tokens,
        origin=origin_of(model, project.PASSAGES, project.GENERATED),
        views=views,
    )


if __name__ == "__main__":
    run(main, shared=True)
