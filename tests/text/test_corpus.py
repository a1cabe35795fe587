"""Matrices of passages and features of pairs: equal to one row at a time, and the same bits after an interruption."""

from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import DEFAULT, Mock

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from gnn_encoder.base.matrix import Origin, open_matrix, read_manifest
from gnn_encoder.base.tables import feature_schema
from gnn_encoder.text import corpus
from gnn_encoder.text import cross_encoder as module
from gnn_encoder.text.batches import Inputs, single_batch
from gnn_encoder.text.corpus import embed_passages, encode_corpus, passage_inputs, transform_corpus
from gnn_encoder.text.cross_encoder import CrossEncoder, embed_pairs, score_pairs
from gnn_encoder.text.tokens import TextTokens

from ..encoders import cross_encoder, dual_encoder
from ..texts import text

HOW: dict[str, Any] = {"dtype": "float16", "origin": Origin(model_fingerprint="model", input_fingerprint="input")}


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in (corpus, module):
        monkeypatch.setattr(one, "WINDOW", 5)


def test_interrupted_and_resumed_equals_undisturbed(tiny_model: Path, tmp_path: Path) -> None:
    """And rows, of the matrix and those asked for, are those of one text at a time, in order."""
    encoder = dual_encoder(tiny_model, shared=False, query_length=9).for_inference()
    many = TextTokens.of([text(i, 1 + (i * 11) % 37) for i in range(23)], encoder.tokenizer)
    write = partial(encode_corpus, encoder, passage_inputs(encoder, many), batch_tokens=64, **HOW)
    write(tmp_path / "whole")
    found, rows = open_matrix(tmp_path / "whole"), np.array([7, 0, 22, 7])
    each = [encoder.encode_passages(single_batch(many, np.array([i]), encoder.template, 24)) for i in range(23)]
    expected = np.concatenate(each)
    np.testing.assert_allclose(embed_passages(encoder, many, 40, rows), expected[rows], atol=2e-6)
    np.testing.assert_allclose(found, expected, atol=1e-3)
    assert np.abs(expected[0] - expected[1]).max() > 1e-2  # rows that cannot be told apart would prove nothing
    manifest = read_manifest(tmp_path / "whole")
    assert (manifest.model_fingerprint, manifest.input_fingerprint) == ("model", "input")
    same = Mock(wraps=lambda first, block: block, side_effect=[DEFAULT, DEFAULT, KeyboardInterrupt, *[DEFAULT] * 3])
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "out", transform=same)
    assert not (tmp_path / "out" / "manifest.json").exists()
    for _ in range(2):  # the second time it is finished
        write(tmp_path / "out", transform=same)
    assert [call.args[0] for call in same.call_args_list] == [0, 5, 10, 10, 15, 20]
    grow = partial(transform_corpus, transform=lambda first, block: block * 2 ** (first // 5), **HOW)
    grow(tmp_path / "whole", tmp_path / "scaled")
    np.testing.assert_array_equal(open_matrix(tmp_path / "scaled"), found * 2.0 ** (np.arange(23) // 5)[:, None])
    for name in ("embeddings.npy", "manifest.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_matrix_serves_again_for_the_same_passages_alone(tiny_model: Path, tmp_path: Path) -> None:
    encoder, (model, matrix, table) = dual_encoder(tiny_model), (tmp_path / name for name in ("model", "matrix", "p"))
    encoder.save(model)
    table.write_text("some")

    def used(place: Path) -> Path | None:
        return corpus.same_origin(corpus.origin_of(model, table), place)

    inputs = passage_inputs(encoder, TextTokens.of(["a b"], encoder.tokenizer))
    encode_corpus(encoder, inputs, matrix, batch_tokens=64, dtype="float16", origin=corpus.origin_of(model, table))
    assert used(matrix) == matrix and used(tmp_path / "none") is None
    table.write_text("others")
    assert used(matrix) is None


QUERY, PASSAGE = np.arange(12) % 6, np.arange(12) * 5 % 6  # rows of the pairs


@pytest.fixture
def model(tiny_model: Path) -> CrossEncoder:
    found = cross_encoder(tiny_model, seed=3)
    with torch.no_grad():
        found.model.classifier.weight.mul_(20)
    return found.for_inference()


@pytest.fixture
def pairs(model: CrossEncoder) -> Inputs:
    queries, passages = (TextTokens.of([text(i, size * i) for i in range(6)], model.tokenizer) for size in (3, 9))
    return Inputs.pairs(queries, QUERY, passages, PASSAGE, model.template, 20)


def each(pairs: Inputs) -> Any:
    return (pairs.batch(np.array([row])) for row in range(len(pairs)))


def test_scores_equal_one_pair_at_a_time_and_resume(model: CrossEncoder, pairs: Inputs, tmp_path: Path) -> None:
    expected = np.array([model.logits(batch).item() for batch in each(pairs)])
    whole = score_pairs(model, pairs, tmp_path / "whole", 50)
    assert whole.shape == (12,) and np.ptp(expected) > 1e-3
    np.testing.assert_allclose(whole, expected, atol=2e-6)
    (tmp_path / "whole" / "scores-000001.npy").unlink()
    np.testing.assert_array_equal(score_pairs(model, pairs, tmp_path / "whole", 50), whole)
    nothing = np.empty(0, dtype=np.int64)
    empty = Inputs.pairs(pairs.first, nothing, pairs.second, nothing, model.template, 20)
    assert score_pairs(model, empty, tmp_path / "none", 50).shape == (0,)


def test_features_in_order_as_parquet_parts(model: CrossEncoder, pairs: Inputs, tmp_path: Path) -> None:
    folder = tmp_path / "edges"
    embed_pairs(model, pairs, folder, {"query": QUERY, "passage": PASSAGE}, batch_tokens=50)
    assert sorted(path.name for path in folder.iterdir()) == [f"part-00000{i}.parquet" for i in range(3)]
    tables = [pq.read_table(folder / module.PART.format(i)) for i in range(3)]
    assert [table.num_rows for table in tables] == [5, 5, 2]
    assert all(table.schema.equals(feature_schema(32, "query", "passage")) for table in tables)
    for name, rows in (("query", QUERY), ("passage", PASSAGE)):
        np.testing.assert_array_equal(np.concatenate([table.column(name).to_numpy() for table in tables]), rows)
    expected = np.concatenate([model.embed(batch).numpy() for batch in each(pairs)])
    found = np.concatenate([np.array(table.column("feature").to_pylist()) for table in tables])
    np.testing.assert_allclose(found, expected, atol=2e-3)  # float16
