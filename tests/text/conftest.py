"""A table of passages and one of queries on disk, with their tokens."""

from pathlib import Path

import pytest

from gnn_encoder.base import files as place
from gnn_encoder.text.pretrained import Source, load_tokenizer
from gnn_encoder.text.tokens import TextTokens, open_tokens

from ..texts import text, write_passages, write_queries

TITLES = ["", "Baking bread", "", "A long title about the oven and the flour", "x", ""]
TEXTS = [text(0, 3), text(1, 5), "a", text(3, 40), "Ünïcode, 12.5% & more!", text(5, 90)]
QUERIES = [text(10, 2), text(11, 60), "why?", text(13, 9), text(14, 30), text(15, 12)]


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "SCRATCH", tmp_path / "scratch")


@pytest.fixture
def passages_table(tmp_path: Path) -> Path:
    return write_passages(tmp_path / "passages.parquet", TITLES, TEXTS)


@pytest.fixture
def queries_table(tmp_path: Path) -> Path:
    return write_queries(tmp_path / "train.parquet", QUERIES)


def opened(table: Path, model: Path) -> TextTokens:
    return open_tokens(table, load_tokenizer(Source(str(model))), table.parent / "tokens", 128)


@pytest.fixture
def passages(passages_table: Path, tiny_model: Path) -> TextTokens:
    return opened(passages_table, tiny_model)


@pytest.fixture
def queries(queries_table: Path, tiny_model: Path) -> TextTokens:
    return opened(queries_table, tiny_model)


@pytest.fixture
def many(tmp_path: Path, tiny_model: Path) -> TextTokens:
    """23 passages of many lengths."""
    texts = [text(i, 1 + (i * 11) % 37) for i in range(23)]
    return opened(write_passages(tmp_path / "many" / "passages.parquet", ["", "Title"] * 11 + [""], texts), tiny_model)
