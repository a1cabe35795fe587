"""The small task of the training tests, with generated queries and an encoder that reads pairs."""

from dataclasses import replace
from pathlib import Path

import pytest

from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.tokens import TextTokens, open_tokens

from ..texts import text, write_queries
from ..train.conftest import examples, tables, texts, tiny_encoder

__all__ = ["examples", "tables", "texts"]

VIEWS = 3
PAIR_LENGTH = 20


def pair_encoder(model: Path, *, dropout: float = 0.0, shared: bool = True) -> DualEncoder:
    """In float64; queries of 10 tokens, pairs of 20, passages alone of 16."""
    encoder = tiny_encoder(model, dropout=dropout, shared=shared)
    encoder.settings = replace(encoder.settings, pair_length=PAIR_LENGTH)
    return encoder


@pytest.fixture
def generated(tables: Path, tiny_model: Path) -> TextTokens:
    """Three queries for each of the 12 passages."""
    (tables / "generated").mkdir()
    asked = [text(40 + i, 1 + (i * 5) % 9) for i in range(12 * VIEWS)]
    table = write_queries(tables / "generated" / "queries.parquet", asked)
    return open_tokens(table, pair_encoder(tiny_model).tokenizer, table.parent, 32)


@pytest.fixture
def passage_tokens(tables: Path, tiny_model: Path) -> TextTokens:
    return open_tokens(tables / "passages.parquet", pair_encoder(tiny_model).tokenizer, tables, 32)
