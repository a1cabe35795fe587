"""The project's queries and passages as tokens, made once for all models that share a tokenizer."""

from pathlib import Path
from typing import Protocol

from transformers import PreTrainedTokenizerBase

from gnn_encoder.encoding.tokens import TextTokens, open_tokens
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project


class Reader(Protocol):
    """A model that reads texts: dual-encoder, cross-encoder, query generator."""

    tokenizer: PreTrainedTokenizerBase


def open_queries(table: Path, model: Reader) -> TextTokens:
    """Tokens of a table of queries, with the prefix that a dual-encoder puts before each."""
    prefix = model.settings.query_prefix if isinstance(model, DualEncoder) else ""
    return open_tokens(table, model.tokenizer, prefix=prefix)


def open_passages(model: Reader) -> TextTokens:
    """Tokens of the passages, with the prefix that a dual-encoder puts before each."""
    prefix = model.settings.passage_prefix if isinstance(model, DualEncoder) else ""
    return open_tokens(project.PASSAGES, model.tokenizer, prefix=prefix)
