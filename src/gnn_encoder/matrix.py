"""The corpus by a dual-encoder, from artifacts to the matrix of h_p, or of what a graph makes of them."""

from pathlib import Path

from gnn_encoder.core import project
from gnn_encoder.core.params import Params
from gnn_encoder.core.storage.fingerprint import fingerprint
from gnn_encoder.encoders.corpus import Transform, alone, encode_corpus, transform_corpus, unchanged
from gnn_encoder.encoders.dual_encoder import DualEncoder
from gnn_encoder.encoders.texts import open_passages


def keeps_base(model: Path, base: str) -> bool:
    """Whether an encoder that was trained on from system `base` kept its weights: its matrix is that one's."""
    return DualEncoder.same_weights(model, project.ENCODERS[base])


def write_matrix(
    model: Path,
    folder: Path,
    params: Params,
    *,
    base: str | None = None,
    transform: Transform = unchanged,
    manifest: dict[str, str] | None = None,
) -> None:
    """Encode all passages and write the matrix.

    Args:
        model: folder of the dual-encoder.
        folder: scratch folder of the matrix; windows that an interrupted run finished there are kept.
        base: the system that the encoder was trained on from; what it would only repeat is read from that one's matrix.
        transform: what a window's embeddings (from row `first` on) become before they are written.
        manifest: `model_fingerprint` and `input_fingerprint`; None: of the encoder and of the passages.
    """
    dtype = params.cache_passages.dtype
    if manifest is None:
        manifest = {"model_fingerprint": fingerprint(model), "input_fingerprint": fingerprint(project.PASSAGES)}
    if base is not None and keeps_base(model, base):
        transform_corpus(project.embeddings(base), folder, dtype=dtype, manifest=manifest, transform=transform)
        return
    encoder = DualEncoder.load(model, precision=params.encoder.precision).for_inference()
    encode_corpus(
        encoder,
        alone(encoder, open_passages(encoder)),
        folder,
        dtype=dtype,
        batch_tokens=params.encoder.batch_tokens,
        manifest=manifest,
        transform=transform,
    )
