"""The passage matrix of a dual-encoder: h_p of every passage, or what a graph makes of them."""

from pathlib import Path

from gnn_encoder.core.params import Params
from gnn_encoder.core.storage.arrays import Origin, read_manifest
from gnn_encoder.core.storage.fingerprint import MANIFEST, fingerprint
from gnn_encoder.encoding.corpus import Transform, alone, encode_corpus, transform_corpus, unchanged
from gnn_encoder.encoding.texts import open_passages
from gnn_encoder.models.dual_encoder import DualEncoder


def origin_of(model: Path, *texts: Path) -> Origin:
    """What a plain matrix is made from: the weights in a dual-encoder's folder, and tables of texts."""
    return Origin(model_fingerprint=DualEncoder.fingerprint(model), input_fingerprint=fingerprint(*texts))


def same_encoder(model: Path, matrix: Path) -> Path | None:
    """The matrix, where the weights in a dual-encoder's folder made it: nothing need be encoded again. Else None."""
    if not (matrix / MANIFEST).is_file():
        return None
    return matrix if read_manifest(matrix).model_fingerprint == DualEncoder.fingerprint(model) else None


def write_matrix(
    encoder: DualEncoder,
    folder: Path,
    params: Params,
    *,
    origin: Origin,
    encoded: Path | None = None,
    transform: Transform = unchanged,
) -> None:
    """Encode all passages and write the matrix.

    Args:
        folder: scratch folder of the matrix; windows that an interrupted run finished there are kept.
        origin: what it is made from.
        encoded: a matrix of the passages by the same weights, which is read instead; None: there is none.
        transform: what a window's embeddings (from row `first` on) become before they are written.
    """
    dtype = params.cache_passages.dtype
    if encoded is not None:
        transform_corpus(encoded, folder, dtype=dtype, origin=origin, transform=transform)
        return
    encode_corpus(
        encoder,
        alone(encoder, open_passages(encoder)),
        folder,
        dtype=dtype,
        batch_tokens=params.encoder.batch_tokens,
        origin=origin,
        transform=transform,
    )
