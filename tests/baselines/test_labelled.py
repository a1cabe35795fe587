"""h_p + lambda * mean of labelled queries: block by block, against one dense NumPy computation."""

import numpy as np
import polars as pl
import pytest

from gnn_encoder.baselines.labelled import Asked, Others

PAIRS = pl.DataFrame(
    {"query": [0, 1, 1, 2, 3], "passage": [4, 4, 1, 6, 4]}, schema={"query": pl.Int32, "passage": pl.Int32}
)
LABELLED = {1: [1], 4: [0, 1, 3], 6: [2]}  # passage -> its queries


def vectors(rows: int, seed: int, *, unit: bool = True) -> np.ndarray:
    found = np.random.default_rng(seed).normal(size=(rows, 5)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True) if unit else found


def shifted(passages: np.ndarray, queries: np.ndarray, weight: float, unit: bool) -> np.ndarray:
    result = passages.astype(np.float64)
    for passage, of in LABELLED.items():
        result[passage] += weight * queries[of].astype(np.float64).mean(axis=0)
        if unit and weight:
            result[passage] /= np.sqrt((result[passage] ** 2).sum())
    return result


def test_worked_out_by_hand() -> None:
    """[1, 0] + 0.5 * mean of [0, 1] and [0, 3] is [1, 1]; of length 1: both 1 / sqrt(2)."""
    pairs = pl.DataFrame({"query": [0, 1], "passage": [1, 1]}, schema=PAIRS.schema)
    asked = Asked.of(np.array([[0, 1], [1, 0]], np.float32), pairs, np.array([[0, 1], [0, 3]], np.float32))
    assert asked.plus_mean(0.5, unit_length=False).tolist() == [[1, 1]]
    np.testing.assert_allclose(asked.plus_mean(0.5, unit_length=True), [[0.5**0.5, 0.5**0.5]], rtol=1e-6)


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("weight", [-0.5, 0.0, 0.3])
def test_blocks_equal_the_whole(unit: bool, weight: float) -> None:
    passages, queries = vectors(8, 0, unit=unit), vectors(4, 1, unit=unit)
    asked = Asked.of(passages, PAIRS, queries)
    moved = asked.plus_mean(weight, unit_length=unit)
    found = np.concatenate([asked.place(first, passages[first : first + 3].copy(), moved) for first in (0, 3, 6)])
    np.testing.assert_allclose(found, shifted(passages, queries, weight, unit), atol=1e-6)
    kept = [row for row in range(8) if row not in LABELLED or weight == 0]
    assert (found[kept] == passages[kept]).all(), "to the bit"


@pytest.mark.parametrize("unit", [True, False])
def test_rankings_are_those_of_the_shifted_matrix(unit: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnn_encoder.base.matrix.READ_ROWS", 3)
    passages, logged, queries = vectors(8, 2, unit=unit), vectors(4, 3, unit=unit), vectors(6, 4, unit=unit)
    asked = Asked.of(passages, PAIRS, logged)
    others = Others(passages, asked, queries, 5)
    for weight in (0.0, -0.7, 0.4):
        scores = queries.astype(np.float64) @ shifted(passages, logged, weight, unit).T
        found = others.rank(asked.plus_mean(weight, unit_length=unit))
        assert found[0].tolist() == np.argsort(-scores, axis=1)[:, :5].tolist(), weight


def test_a_corpus_without_labels() -> None:
    passages, queries = vectors(8, 7), vectors(3, 8)
    asked = Asked.of(passages, PAIRS.clear(), np.empty((0, 5), np.float32))
    found = Others(passages, asked, queries, 2).rank(asked.plus_mean(1.0, unit_length=True))
    assert found[0].tolist() == np.argsort(-(queries @ passages.T), axis=1)[:, :2].tolist()
