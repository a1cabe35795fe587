"""`encoder.query_prefix` and `encoder.passage_prefix`: every dual-encoder reads them, no other model does."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from gnn_encoder.export import export_sentence_transformer
from gnn_encoder.pipeline import project
from gnn_encoder.text.corpus import embed_passages, embed_queries, open_passages, open_queries
from gnn_encoder.text.cross_encoder import CrossEncoder
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.pretrained import Source
from gnn_encoder.text.tokens import TextTokens

from ..encoders import settings
from .conftest import QUERIES, TEXTS, TITLES

QUERY, PASSAGE = "question: ", "bread "
LONG = "oven flour " * 40  # longer than what is read
ASKED = ["bread oven", "why?", LONG]


@pytest.fixture
def plain(tiny_model: Path, passages_table: Path, monkeypatch: pytest.MonkeyPatch) -> DualEncoder:
    """The same weights without a prefix."""
    monkeypatch.setattr(project, "PASSAGES", passages_table)
    return DualEncoder.from_pretrained(settings(tiny_model)).for_inference()


@pytest.fixture
def folder(tiny_model: Path, tmp_path: Path) -> Path:
    """A saved encoder that puts a prefix before either kind of text."""
    encoder = DualEncoder.from_pretrained(settings(tiny_model, query_prefix=QUERY, passage_prefix=PASSAGE))
    encoder.save(tmp_path / "encoder")
    return tmp_path / "encoder"


def expected_queries(plain: DualEncoder, texts: list[str]) -> NDArray[np.float32]:
    """An encoder without prefixes reads texts that have it already."""
    return plain.embed_queries([QUERY + text for text in texts])


def test_texts_and_tables(plain: DualEncoder, folder: Path, queries_table: Path) -> None:
    encoder, rows = DualEncoder.load(folder, precision="fp32").for_inference(), np.arange(6)
    expected = expected_queries(plain, ASKED)
    assert np.abs(expected - plain.embed_queries(ASKED)).max() > 0.01, "the prefix matters"
    found, is_cut = encoder.read_queries(ASKED)
    np.testing.assert_allclose(found, expected, atol=2e-5)
    assert is_cut.tolist() == [False, False, True]
    found = embed_queries(encoder, open_queries(queries_table, encoder), 512)
    np.testing.assert_allclose(found, expected_queries(plain, QUERIES), atol=2e-5)
    sep = plain.tokenizer.sep_token
    whole = [PASSAGE + (f"{title} {sep} {text}" if title else text) for title, text in zip(TITLES, TEXTS, strict=True)]
    expected = embed_passages(plain, TextTokens.of(whole, plain.tokenizer), 512, rows)
    np.testing.assert_allclose(embed_passages(encoder, open_passages(encoder), 512, rows), expected, atol=2e-5)


def test_a_cross_encoder_reads_none(plain: DualEncoder, tiny_model: Path, queries_table: Path) -> None:
    with_prefix = settings(tiny_model, query_prefix=QUERY, passage_prefix=PASSAGE)
    model = CrossEncoder.from_pretrained(Source(str(tiny_model)), with_prefix)
    assert np.array_equal(open_queries(queries_table, model).ids, open_queries(queries_table, plain).ids)
    assert np.array_equal(open_passages(model).ids, open_passages(plain).ids)


def test_the_export_puts_it_before_a_query_by_itself(
    plain: DualEncoder, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project, "encoder", lambda system: folder)
    (tmp_path / "out").mkdir()
    export_sentence_transformer("gnn_encoder", tmp_path / "out")
    found = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(ASKED)
    np.testing.assert_allclose(found, expected_queries(plain, ASKED), atol=2e-5)
