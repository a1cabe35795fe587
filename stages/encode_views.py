"""encode_views: the corpus as a matrix of views, each passage with each of its generated questions (Eq. 10)."""

from gnn_encoder.core import project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import output, run
from gnn_encoder.core.storage.fingerprint import fingerprint
from gnn_encoder.dual_cross.two_stages import QUESTIONS
from gnn_encoder.dual_cross.views import view_inputs
from gnn_encoder.encoders.corpus import encode_corpus
from gnn_encoder.encoders.dual_encoder import DualEncoder
from gnn_encoder.encoders.texts import open_passages, open_queries


def main() -> None:
    """Encode every pair of a generated question and its passage."""
    params = load_params()
    texts = [project.PASSAGES, project.GENERATED]
    views, model = params.dual_cross.views, project.ENCODERS["dual_cross"]
    sections = {"views": views, "cache_passages": params.cache_passages, "precision": params.encoder.precision}
    with output(project.embeddings("dual_cross"), [*texts, model], sections) as scratch:
        encoder = DualEncoder.load(model, precision=params.encoder.precision).for_inference()
        encode_corpus(
            encoder,
            view_inputs(encoder, open_queries(QUESTIONS, encoder), open_passages(encoder), views),
            scratch,
            dtype=params.cache_passages.dtype,
            batch_tokens=params.encoder.batch_tokens,
            manifest={"model_fingerprint": fingerprint(model), "input_fingerprint": fingerprint(*texts)},
            views=views,
        )


if __name__ == "__main__":
    run(main)
