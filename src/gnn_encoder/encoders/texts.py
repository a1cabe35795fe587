"""The project's texts as tokens, made once for all stages whose models share a tokenizer."""

from pathlib import Path

from gnn_encoder import project
from gnn_encoder.encoders.cross_encoder import CrossEncoder
from gnn_encoder.encoders.dual_encoder import DualEncoder
from gnn_encoder.encoders.tokens import TextTokens, open_tokens


def open_queries(table: Path, model: DualEncoder | CrossEncoder) -> TextTokens:
    """Tokens of a table of questions."""
    return open_tokens(table, model.tokenizer)


def open_passages(model: DualEncoder | CrossEncoder) -> TextTokens:
    """Tokens of the passages."""
    return open_tokens(project.PASSAGES, model.tokenizer)
