"""Artifacts where they lie, as the values that the packages of the method take, and matrices of the passages."""

from pathlib import Path

from gnn_encoder.base import files as scratch
from gnn_encoder.base.matrix import Matrix, Origin, Rows
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Encoder, Params
from gnn_encoder.text.corpus import Transform, embed_queries, encode_corpus, passage_inputs
from gnn_encoder.text.encoder import DualEncoder, TextModel
from gnn_encoder.text.tokens import TextTokens, open_tokens


def open_queries(table: Path, model: TextModel) -> TextTokens:
    """Tokens of a table of queries as a model reads them, with the prefix that it puts before each text."""
    return open_tokens(table, model.tokenizer, scratch.SCRATCH / "tokens", prefix=model.prefix_of(table))


def open_passages(model: TextModel) -> TextTokens:
    """The same of the passages."""
    return open_queries(project.PASSAGES, model)


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
    transform: Transform | None = None,
) -> None:
    """Write the matrix of the passages, each read alone; the arguments are those of `encode_corpus`."""
    encode_corpus(
        encoder,
        passage_inputs(encoder, open_passages(encoder)),
        folder,
        dtype=params.cache_passages.dtype,
        batch_tokens=params.encoder.batch_tokens,
        origin=origin,
        encoded=encoded,
        transform=transform,
    )
