"""Opening artifacts where they lie, as the values that the packages of the method take."""

from pathlib import Path

from gnn_encoder.core.rows import Matrix, Rows
from gnn_encoder.core.storage import scratch
from gnn_encoder.encoding.corpus import embed_queries
from gnn_encoder.encoding.tokens import Reader, TextTokens, open_texts
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.models.params import Encoder
from gnn_encoder.pipeline import project


def open_queries(table: Path, model: Reader) -> TextTokens:
    """Tokens of a table of queries as a model reads them."""
    return open_texts(table, model, scratch.SCRATCH / "tokens")


def open_passages(model: Reader) -> TextTokens:
    """Tokens of the passages as a model reads them."""
    return open_texts(project.PASSAGES, model, scratch.SCRATCH / "tokens")


def load_encoder(system: str, section: Encoder) -> DualEncoder:
    """The dual-encoder of a dense system, for inference."""
    return DualEncoder.load(project.encoder(system), precision=section.precision).for_inference()


def embed_table(system: str, table: Path, section: Encoder, rows: Rows | None = None) -> Matrix:
    """The queries of a table, or some rows of them, embedded by a system's encoder. *Shape:* (queries, d)."""
    encoder = load_encoder(system, section)
    return embed_queries(encoder, open_queries(table, encoder), section.batch_tokens, rows)
