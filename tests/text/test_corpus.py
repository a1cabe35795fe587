"""The corpus as a matrix: equal to one text at a time, and the same bits after an interruption."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from gnn_encoder.base.matrix import Origin, open_matrix, read_manifest
from gnn_encoder.text import corpus
from gnn_encoder.text.corpus import embed_passages, embed_queries, encode_corpus, passage_inputs, transform_corpus
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.tokens import TextTokens, single_batch

from ..encoders import dual_encoder

ORIGIN = Origin(model_fingerprint="model", input_fingerprint="input")


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "WINDOW", 5)


@pytest.fixture
def encoder(tiny_model: Path) -> DualEncoder:
    encoder = dual_encoder(tiny_model, shared=False, query_length=9)
    with torch.no_grad():
        encoder.passage.encoder.layer[0].output.dense.weight.mul_(2.0)  # the two sides differ
    return encoder.for_inference()


def one_by_one(encoder: DualEncoder, tokens: TextTokens, side: str, rows: np.ndarray) -> np.ndarray:
    encode = getattr(encoder, f"encode_{side}")
    length = encoder.settings.passage_length if side == "passages" else encoder.settings.query_length
    return np.concatenate([encode(single_batch(tokens, np.array([row]), encoder.template, length)) for row in rows])


def write(encoder: DualEncoder, tokens: TextTokens, folder: Path, dtype: str = "float32", **options: object) -> None:
    encode_corpus(
        encoder, passage_inputs(encoder, tokens), folder, dtype=dtype, batch_tokens=64, origin=ORIGIN, **options
    )


def test_equals_one_text_at_a_time_in_row_order(encoder: DualEncoder, many: TextTokens, tmp_path: Path) -> None:
    write(encoder, many, tmp_path / "out")
    expected = one_by_one(encoder, many, "passages", np.arange(23))
    found = open_matrix(tmp_path / "out")
    assert found.shape == (23, 32)
    np.testing.assert_allclose(found, expected, atol=2e-6)
    assert np.abs(expected[0] - expected[1]).max() > 1e-3  # rows that cannot be told apart would prove nothing
    manifest = read_manifest(tmp_path / "out")
    assert (manifest.model_fingerprint, manifest.input_fingerprint) == ("model", "input")


def test_interrupted_and_resumed_equals_undisturbed(encoder: DualEncoder, many: TextTokens, tmp_path: Path) -> None:
    write(encoder, many, tmp_path / "whole", "float16")
    encoded = []

    def stop_at_second(first: int, embeddings: np.ndarray) -> np.ndarray:
        if len(encoded) == 2:
            raise KeyboardInterrupt
        encoded.append(first)
        return embeddings

    with pytest.raises(KeyboardInterrupt):
        write(encoder, many, tmp_path / "out", "float16", transform=stop_at_second)
    assert encoded == [0, 5]
    assert not (tmp_path / "out" / "manifest.json").exists()
    resumed = []
    write(encoder, many, tmp_path / "out", "float16", transform=lambda first, block: (resumed.append(first), block)[1])
    assert resumed == [10, 15, 20]
    write(encoder, many, tmp_path / "out", "float16", transform=lambda first, block: pytest.fail("encoded again"))
    for name in ("embeddings.npy", "manifest.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_transform_gets_its_rows(encoder: DualEncoder, many: TextTokens, tmp_path: Path) -> None:
    write(encoder, many, tmp_path / "plain")

    def shift(first: int, block: np.ndarray) -> np.ndarray:
        return block + np.arange(first, first + len(block), dtype=np.float32)[:, None]

    write(encoder, many, tmp_path / "shifted", transform=shift)
    transform_corpus(tmp_path / "plain", tmp_path / "later", dtype="float32", origin=ORIGIN, transform=shift)
    plain = open_matrix(tmp_path / "plain")
    np.testing.assert_array_equal(open_matrix(tmp_path / "shifted"), plain + np.arange(23, dtype=np.float32)[:, None])
    np.testing.assert_array_equal(open_matrix(tmp_path / "later"), open_matrix(tmp_path / "shifted"))


@pytest.mark.parametrize(("embed", "side"), [(embed_queries, "queries"), (embed_passages, "passages")])
def test_some_rows(encoder: DualEncoder, many: TextTokens, embed: Callable[..., np.ndarray], side: str) -> None:
    rows = np.array([7, 0, 22, 7])
    found = embed(encoder, many, 40, rows)
    np.testing.assert_allclose(found, one_by_one(encoder, many, side, rows), atol=2e-6)
    assert embed(encoder, many, 40, np.array([], dtype=np.int64)).shape == (0, 32)


def test_all_queries_by_default(encoder: DualEncoder, many: TextTokens) -> None:
    assert embed_queries(encoder, many, 40).shape == (23, 32)
