"""The packed encoder gives the dual-encoder's vectors, whatever stands beside a text in its batch."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import erf

from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.serving.encoder import Encoders, PackedEncoder, Packing, gelu

from ..models.test_quick import TEXTS, save_encoder


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("similarity", ["dot", "cosine"])
def test_equals_the_dual_encoder(tmp_path: Path, pooling: str, similarity: str) -> None:
    save_encoder(tmp_path, pooling, similarity)
    expected = DualEncoder.load(tmp_path, precision="fp32").for_inference().embed_queries(TEXTS)
    packed = PackedEncoder.open(tmp_path)
    assert isinstance(packed, PackedEncoder)
    found = packed.embed_queries(TEXTS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=2e-5)
    np.testing.assert_allclose(packed.embed_queries(TEXTS[:1]), expected[:1], atol=2e-5)


def test_counts_special_tokens_and_cuts(tmp_path: Path) -> None:
    save_encoder(tmp_path, "cls", "dot")
    packed = PackedEncoder.open(tmp_path)
    assert isinstance(packed, PackedEncoder)
    tokens = packed.embed(["life", "cover " * 40]).tokens
    assert tokens is not None and tokens.tolist() == [3, 12]  # [CLS] life [SEP], and the query length


def test_packing_by_hand() -> None:
    packing = Packing.of(np.array([2, 1, 3]))
    assert packing.starts.tolist() == [0, 2, 3]
    assert packing.slots.tolist() == [0, 1, 3, 6, 7, 8]
    assert packing.positions.tolist() == [0, 1, 0, 0, 1, 2]
    assert (packing.mask[:, 0, 0] == 0).tolist() == [[True, True, False], [True, False, False], [True, True, True]]
    packed = np.arange(6, dtype=np.float32)[:, None]
    assert packing.pad(packed)[:, :, 0].tolist() == [[0, 1, 0], [2, 0, 0], [3, 4, 5]]
    assert packing.unpad(packing.pad(packed)).tolist() == packed.tolist()


def test_gelu_is_x_times_the_normal_distribution() -> None:
    x = np.linspace(-9, 9, 200_000, dtype=np.float32).reshape(200, 1000)
    expected = x.astype(np.float64) * 0.5 * (1 + erf(x.astype(np.float64) / np.sqrt(2)))
    np.testing.assert_allclose(gelu(x.copy()), expected, atol=1e-6)


def test_equal_weights_are_held_once_and_only_as_long_as_used(tmp_path: Path) -> None:
    for name in ("one", "two"):
        save_encoder(tmp_path / name, "cls", "dot")
    save_encoder(tmp_path / "other", "mean", "dot")
    encoders = Encoders()
    one = encoders.load(tmp_path / "one")
    assert encoders.load(tmp_path / "two") is one
    assert encoders.load(tmp_path / "other") is not one
    del one
    assert len(encoders._known) == 0


def test_what_is_no_plain_bert_is_loaded_otherwise(tmp_path: Path) -> None:
    save_encoder(tmp_path, "cls", "dot")
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"gelu"', '"relu"'))
    other = DualEncoder.load(tmp_path, precision="fp32")
    assert Encoders(otherwise={tmp_path: other}.__getitem__).load(tmp_path) is other
