"""h_p + lambda * mean of labelled queries: block by block, against one dense NumPy computation."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gnn_encoder.baselines.query_mean import QueryMeans, Shift

from ..index.conftest import save_matrix

__all__ = ["save_matrix"]
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


def shift(queries: np.ndarray, *, unit: bool = True, dtype: str = "float32") -> Shift:
    return Shift(means=QueryMeans.of(PAIRS, queries), unit_length=unit, dtype=dtype)


def test_worked_out_by_hand() -> None:
    """[1, 0] + 0.5 * mean of [0, 1] and [0, 3] is [1, 1]; of length 1: both 1 / sqrt(2)."""
    pairs = pl.DataFrame({"query": [0, 1], "passage": [1, 1]}, schema=PAIRS.schema)
    means = QueryMeans.of(pairs, np.array([[0, 1], [0, 3]], np.float32))
    block = np.array([[0, 1], [1, 0]], np.float32)
    moved = Shift(means=means, unit_length=False, dtype="float32").block(0, block.copy(), 0.5)
    assert moved.tolist() == [[0, 1], [1, 1]]
    moved = Shift(means=means, unit_length=True, dtype="float32").block(0, block.copy(), 0.5)
    np.testing.assert_allclose(moved, [[0, 1], [0.5**0.5, 0.5**0.5]], rtol=1e-6)


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("weight", [-0.5, 0.0, 0.3])
def test_blocks_equal_the_whole(unit: bool, weight: float) -> None:
    passages, queries = vectors(8, 0, unit=unit), vectors(4, 1, unit=unit)
    parts = [shift(queries, unit=unit).block(first, passages[first : first + 3].copy(), weight) for first in (0, 3, 6)]
    found = np.concatenate(parts)
    np.testing.assert_allclose(found, shifted(passages, queries, weight, unit), atol=1e-6)
    kept = [row for row in range(8) if row not in LABELLED or weight == 0]
    assert (found[kept] == passages[kept]).all(), "to the bit"


@pytest.mark.parametrize("unit", [True, False])
def test_rankings_are_those_of_the_shifted_matrix(
    save_matrix: Callable[..., Path], unit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gnn_encoder.core.storage.arrays.READ_ROWS", 3)
    passages, logged, asked = vectors(8, 2, unit=unit), vectors(4, 3, unit=unit), vectors(6, 4, unit=unit)
    weights = [0.0, -0.7, 0.4]
    found = shift(logged, unit=unit).rankings(save_matrix(passages), asked, weights, 5)
    for ranking, weight in zip(found, weights, strict=True):
        scores = asked.astype(np.float64) @ shifted(passages, logged, weight, unit).T
        assert ranking.tolist() == np.argsort(-scores, axis=1)[:, :5].tolist(), weight


def test_what_is_judged_is_what_is_written(save_matrix: Callable[..., Path]) -> None:
    """Vectors on disk are rounded to float16, and so are those that choose the weight."""
    passages, queries = vectors(8, 5).astype(np.float16), vectors(4, 6)
    moved = shift(queries, dtype="float16").block(0, passages.astype(np.float32), 0.3)
    assert (moved == moved.astype(np.float16)).all()


def test_a_corpus_without_labels(save_matrix: Callable[..., Path]) -> None:
    means = QueryMeans.of(PAIRS.clear(), np.empty((0, 5), np.float32))
    passages, asked = vectors(8, 7), vectors(3, 8)
    found = Shift(means=means, unit_length=True, dtype="float32").rankings(save_matrix(passages), asked, [0.0, 1.0], 2)
    expected = np.argsort(-(asked @ passages.T), axis=1)[:, :2].tolist()
    assert [ranking.tolist() for ranking in found] == [expected, expected]
