"""`encoder.query_prefix` and `encoder.passage_prefix`: every dual-encoder reads them, no other model does."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from gnn_encoder.export import export_sentence_transformer, read_settings, write_tokenizer
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.opening import open_passages, open_queries
from gnn_encoder.text.corpus import embed_passages, embed_queries
from gnn_encoder.text.cross_encoder import CrossEncoder
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.pretrained import Source

from ..encoders import settings
from ..texts import write_queries
from .conftest import QUERIES, TEXTS, TITLES

QUERY, PASSAGE = "question: ", "bread "
LONG = "oven flour " * 40  # longer than what is read


@pytest.fixture
def plain(tiny_model: Path) -> DualEncoder:
    """The same weights without a prefix."""
    return DualEncoder.from_pretrained(settings(tiny_model)).for_inference()


@pytest.fixture
def folder(tiny_model: Path, tmp_path: Path) -> Path:
    """A saved encoder that puts a prefix before either kind of text."""
    encoder = DualEncoder.from_pretrained(settings(tiny_model, query_prefix=QUERY, passage_prefix=PASSAGE))
    encoder.save(tmp_path / "encoder")
    return tmp_path / "encoder"


def load(folder: Path) -> DualEncoder:
    return DualEncoder.load(folder, precision="fp32").for_inference()


def expected_queries(plain: DualEncoder, texts: list[str]) -> NDArray[np.float32]:
    """An encoder without prefixes reads texts that have it already."""
    return plain.embed_queries([QUERY + text for text in texts])


def test_queries_given_as_texts(plain: DualEncoder, folder: Path) -> None:
    texts = ["bread oven", "why?", LONG]
    expected = expected_queries(plain, texts)
    assert np.abs(expected - plain.embed_queries(texts)).max() > 0.01, "the prefix matters"
    np.testing.assert_allclose(load(folder).embed_queries(texts), expected, atol=2e-5)


def test_tables(plain: DualEncoder, folder: Path, queries_table: Path, passages_table: Path, patched: None) -> None:
    encoder, rows = load(folder), np.arange(6)
    found = embed_queries(encoder, open_queries(queries_table, encoder), 512)
    np.testing.assert_allclose(found, expected_queries(plain, QUERIES), atol=2e-5)
    found = embed_passages(encoder, open_passages(encoder), 512, rows)
    np.testing.assert_allclose(found, expected_passages(plain, queries_table.parent), atol=2e-5)


def expected_passages(plain: DualEncoder, folder: Path) -> NDArray[np.float32]:
    sep = plain.tokenizer.sep_token
    whole = [PASSAGE + (f"{title} {sep} {text}" if title else text) for title, text in zip(TITLES, TEXTS, strict=True)]
    (folder / "whole").mkdir(exist_ok=True)
    tokens = open_queries(write_queries(folder / "whole" / "train.parquet", whole), plain)
    return embed_passages(plain, tokens, 512, np.arange(6))


@pytest.fixture
def patched(passages_table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "PASSAGES", passages_table)


def test_a_cross_encoder_reads_none(tiny_model: Path, queries_table: Path, patched: None) -> None:
    with_prefix = settings(tiny_model, query_prefix=QUERY, passage_prefix=PASSAGE)
    model = CrossEncoder.from_pretrained(Source(str(tiny_model)), with_prefix)
    plain = DualEncoder.from_pretrained(settings(tiny_model))
    for found, expected in (
        (open_queries(queries_table, model), open_queries(queries_table, plain)),
        (open_passages(model), open_passages(plain)),
    ):
        assert np.array_equal(found.ids, expected.ids)


def test_sentence_transformers_puts_it_before_a_query_by_itself(
    plain: DualEncoder, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project, "encoder", lambda system: folder)
    (tmp_path / "out").mkdir()
    export_sentence_transformer("gnn_encoder", tmp_path / "out")
    texts = ["bread oven", "why?", LONG]
    found = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(texts)
    np.testing.assert_allclose(found, expected_queries(plain, texts), atol=2e-5)


def test_the_tokenizer_of_the_onnx_export_puts_it_there(folder: Path, tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "copied").mkdir()
    write_tokenizer(folder, tmp_path / "copied", read_settings(folder), prefixed=True)
    copied = Tokenizer.from_file(str(tmp_path / "copied" / "tokenizer.json"))
    own = AutoTokenizer.from_pretrained(tiny_model)
    for text in ("bread oven", LONG):
        assert copied.encode(text).ids == own(QUERY + text, truncation=True, max_length=10)["input_ids"]
