"""The corpus by a dual-encoder alone, from artifacts to the matrix of h_p."""

from pathlib import Path

from gnn_encoder.core import project
from gnn_encoder.core.params import Params
from gnn_encoder.core.storage.fingerprint import fingerprint
from gnn_encoder.encoders.corpus import alone, encode_corpus, transform_corpus
from gnn_encoder.encoders.dual_encoder import DualEncoder
from gnn_encoder.encoders.texts import open_passages


def encode_plain(model: Path, folder: Path, params: Params, *, base: str | None = None) -> None:
    """Encode all passages and write the matrix.

    Args:
        model: folder of the dual-encoder.
        folder: scratch folder of the matrix; windows that an interrupted run finished there are kept.
        base: the system that the encoder was trained on from. Where it kept those weights, the matrix is that one's.
    """
    dtype = params.cache_passages.dtype
    manifest = {"model_fingerprint": fingerprint(model), "input_fingerprint": fingerprint(project.PASSAGES)}
    if base is not None and DualEncoder.same_weights(model, project.ENCODERS[base]):
        unchanged = project.embeddings(base)
        transform_corpus(unchanged, folder, dtype=dtype, manifest=manifest, transform=lambda first, rows: rows)
        return
    encoder = DualEncoder.load(model, precision=params.encoder.precision).for_inference()
    passages, batch_tokens = alone(encoder, open_passages(encoder)), params.encoder.batch_tokens
    encode_corpus(encoder, passages, folder, dtype=dtype, batch_tokens=batch_tokens, manifest=manifest)
