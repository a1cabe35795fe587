"""Pairs through the cross-encoder: in order, in resumable parts, equal to one pair at a time."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from gnn_encoder.base.tables import edge_features
from gnn_encoder.text import cross_encoder as module
from gnn_encoder.text.cross_encoder import CrossEncoder, Known, embed_pairs, score_pairs
from gnn_encoder.text.inputs import Inputs
from gnn_encoder.text.pretrained import Source, load_model, load_tokenizer
from gnn_encoder.text.tokens import TextTokens, text_batch

LENGTH, BATCH_TOKENS = 20, 50
QUERY, PASSAGE = np.arange(12) % 6, np.arange(12) * 5 % 6  # rows of the pairs


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW", 5)


@pytest.fixture
def model(tiny_model: Path) -> CrossEncoder:
    from transformers import AutoModelForSequenceClassification

    torch.manual_seed(3)
    source = Source(str(tiny_model))
    found = load_model(source, dropout=0.0, kind=AutoModelForSequenceClassification, num_labels=1)
    with torch.no_grad():
        found.classifier.weight.mul_(20)
    return CrossEncoder(model=found, tokenizer=load_tokenizer(source), precision="fp32").for_inference()


@pytest.fixture
def pairs(model: CrossEncoder, queries: TextTokens, passages: TextTokens) -> Inputs:
    return Inputs.pairs(queries, QUERY, passages, PASSAGE, model.template, LENGTH)


def each(pairs: Inputs, model: CrossEncoder) -> Any:
    for i in range(len(pairs)):
        at = slice(i, i + 1)
        yield text_batch(pairs.first, QUERY[at], pairs.second, PASSAGE[at], model.template, LENGTH)


def test_scores_equal_one_pair_at_a_time(model: CrossEncoder, pairs: Inputs, tmp_path: Path) -> None:
    expected = np.array([model.logits(batch).item() for batch in each(pairs, model)])
    found = score_pairs(model, pairs, tmp_path, BATCH_TOKENS)
    assert found.shape == (12,)
    assert np.ptp(expected) > 1e-3
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_scores_resume(model: CrossEncoder, pairs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = score_pairs(model, pairs, make(tmp_path / "whole"), BATCH_TOKENS)
    fail_after(monkeypatch, windows=2)
    with pytest.raises(KeyboardInterrupt):
        score_pairs(model, pairs, make(tmp_path / "part"), BATCH_TOKENS)
    assert len(list((tmp_path / "part").iterdir())) == 2
    encoded = fail_after(monkeypatch, windows=9)
    np.testing.assert_array_equal(score_pairs(model, pairs, tmp_path / "part", BATCH_TOKENS), whole)
    assert len(encoded) == 1


def test_no_pairs(model: CrossEncoder, pairs: Inputs, tmp_path: Path) -> None:
    nothing = np.empty(0, dtype=np.int64)
    empty = Inputs.pairs(pairs.first, nothing, pairs.second, nothing, model.template, LENGTH)
    assert score_pairs(model, empty, tmp_path, BATCH_TOKENS).shape == (0,)


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder


encode_prepared = module.encode_prepared


def fail_after(monkeypatch: pytest.MonkeyPatch, windows: int) -> list[int]:
    """The run is killed when it comes to the window after `windows`; returns the sizes of those it encoded."""
    encoded: list[int] = []

    def encode(prepared: Any, size: int, function: Any) -> Any:
        if len(encoded) == windows:
            raise KeyboardInterrupt
        encoded.append(size)
        return encode_prepared(prepared, size, function)

    monkeypatch.setattr(module, "encode_prepared", encode)
    return encoded


def embed(model: CrossEncoder, pairs: Inputs, folder: Path, known: Known | None = None) -> None:
    keys = {"query": QUERY, "passage": PASSAGE}
    embed_pairs(model, pairs, folder, keys, edge_features(32), known=known, batch_tokens=BATCH_TOKENS)


def test_features_in_order_as_parquet_parts(model: CrossEncoder, pairs: Inputs, tmp_path: Path) -> None:
    embed(model, pairs, tmp_path / "edges")
    assert sorted(p.name for p in (tmp_path / "edges").iterdir()) == [f"part-00000{i}.parquet" for i in range(3)]
    tables = [pq.read_table(tmp_path / "edges" / module.PART.format(i)) for i in range(3)]
    assert [table.num_rows for table in tables] == [5, 5, 2]
    assert all(table.schema.equals(edge_features(32)) for table in tables)
    columns = {
        name: np.concatenate([table.column(name).to_numpy() for table in tables]) for name in ("query", "passage")
    }
    np.testing.assert_array_equal(columns["query"], QUERY)
    np.testing.assert_array_equal(columns["passage"], PASSAGE)
    expected = np.concatenate([model.embed(batch).numpy() for batch in each(pairs, model)])
    found = np.concatenate([features(tmp_path / "edges" / module.PART.format(i)) for i in range(3)])
    np.testing.assert_allclose(found, expected, atol=2e-3)  # float16


def test_known_features_are_taken(
    model: CrossEncoder, pairs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed(model, pairs, tmp_path / "whole")
    encoded = fail_after(monkeypatch, windows=9)
    # Of the first window some, of the second all, of the third none.
    rows = np.array([-1, 2, 0, -1, 2, *[1, 0, 2, 1, 1], -1, -1])
    vectors = np.arange(3 * 32, dtype=np.float16).reshape(3, 32)
    embed(model, pairs, tmp_path / "edges", Known(vectors, rows))
    assert encoded == [2, 2]
    parts = [module.PART.format(i) for i in range(3)]
    whole, found = (np.concatenate([features(tmp_path / name / part) for part in parts]) for name in ("whole", "edges"))
    np.testing.assert_array_equal(found[rows >= 0], vectors[rows[rows >= 0]])
    np.testing.assert_allclose(found[rows < 0], whole[rows < 0], atol=2e-3)


def features(part: Path) -> Any:
    return np.array(pq.read_table(part).column("feature").to_pylist())
