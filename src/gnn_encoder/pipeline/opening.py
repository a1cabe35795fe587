"""Artifacts where they lie, as the values that the packages of the method take, and matrices of the passages."""

from pathlib import Path

from gnn_encoder.base import files as scratch
from gnn_encoder.base.matrix import Matrix, Origin, Rows
from gnn_encoder.encoding.corpus import Transform, alone, embed_queries, encode_corpus, unchanged
from gnn_encoder.encoding.tokens import TextTokens, open_texts
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.models.text_model import TextModel
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Encoder, Params


def open_queries(table: Path, model: TextModel) -> TextTokens:
    """Tokens of a table of queries as a model reads them."""
    return open_texts(table, model, scratch.SCRATCH / "tokens")


def open_passages(model: TextModel) -> TextTokens:
    """Tokens of the passages as a model reads them."""
    return open_texts(project.PASSAGES, model, scratch.SCRATCH / "tokens")


def load_encoder(model: Path, section: Encoder) -> DualEncoder:
    """A dual-encoder, for inference."""
    return DualEncoder.load(model, precision=section.precision).for_inference()


def embed_table(system: str, table: Path, section: Encoder, rows: Rows | None = None) -> Matrix:
    """The queries of a table, or some rows of them, embedded by a system's encoder. *Shape:* (queries, d)."""
    return embed_rows(load_encoder(project.encoder(system), section), table, section, rows)


def embed_rows(encoder: DualEncoder, table: Path, section: Encoder, rows: Rows | None = None) -> Matrix:
    """As `embed_table`, for an encoder that is open. *Shape:* (queries, d)."""
    return embed_queries(encoder, open_queries(table, encoder), section.batch_tokens, rows)


def write_matrix(
    encoder: DualEncoder,
    folder: Path,
    params: Params,
    origin: Origin,
    *,
    encoded: Path | None = None,
    transform: Transform = unchanged,
) -> None:
    """Write the matrix of the passages, each read alone; the arguments are those of `encode_corpus`."""
    encode_corpus(
        encoder,
        alone(encoder, open_passages(encoder)),
        folder,
        dtype=params.cache_passages.dtype,
        batch_tokens=params.encoder.batch_tokens,
        origin=origin,
        encoded=encoded,
        transform=transform,
    )
