"""The passage matrix of a dual-encoder: h_p of every passage, or the h'_p that a GNN computes from them."""

from pathlib import Path

from gnn_encoder.core.storage.arrays import Origin, read_manifest
from gnn_encoder.core.storage.fingerprint import MANIFEST, fingerprint
from gnn_encoder.encoding.corpus import Transform, alone, encode_corpus, transform_corpus, unchanged
from gnn_encoder.encoding.texts import open_passages
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline.params import Params


def origin_of(model: Path, *texts: Path) -> Origin:
    """The origin of a matrix that no graph takes part in: a dual-encoder's folder, and tables of texts."""
    return Origin(model_fingerprint=DualEncoder.fingerprint(model), input_fingerprint=fingerprint(*texts))


def same_encoder(model: Path, matrix: Path) -> Path | None:
    """`matrix` if it exists and the dual-encoder in `model` computed it, so that it can be reused; else None."""
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
        origin: what the matrix is made from.
        encoded: a matrix that the same weights computed of the same passages; it is read instead of encoding them.
            None: there is none.
        transform: as in `encode_corpus`.
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
