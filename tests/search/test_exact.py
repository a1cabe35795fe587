from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gnn_encoder.base import matrix as arrays
from gnn_encoder.base.errors import UserError
from gnn_encoder.search import exact
from gnn_encoder.search.exact import exact_top_k

Save = Callable[..., Path]


def whole_numbers(seed: int, *shape: int) -> np.ndarray:
    """Small whole numbers: every inner product is exact in float32, and many are equal."""
    return np.random.default_rng(seed).integers(-2, 3, size=shape).astype(np.float32)


def test_by_hand(save_matrix: Save) -> None:
    folder = save_matrix(np.array([[1, 0], [0, 1], [2, 0], [1, 1]], dtype=np.float32))
    rows, scores = exact_top_k(folder, np.array([[1, 0], [0, -1]], dtype=np.float32), 3)
    assert rows.tolist() == [[2, 0, 3], [0, 2, 1]]
    assert scores.tolist() == [[2, 1, 1], [0, 0, -1]]
    assert rows.dtype == np.int64 and scores.dtype == np.float32


def test_all_passages_equal(save_matrix: Save) -> None:
    rows, _ = exact_top_k(save_matrix(np.ones((300, 3), dtype=np.float32)), np.ones((2, 3), dtype=np.float32), 120)
    assert rows.tolist() == [list(range(120))] * 2


def test_queries_in_chunks(save_matrix: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, queries = save_matrix(whole_numbers(0, 90, 4)), whole_numbers(1, 11, 4)
    monkeypatch.setattr(arrays, "READ_ROWS", 40)
    whole = exact_top_k(folder, queries, 5)
    monkeypatch.setattr(exact, "MERGE_ENTRIES", 15)  # three queries at a time
    parts = exact_top_k(folder, queries, 5)
    np.testing.assert_array_equal(parts[0], whole[0])
    np.testing.assert_array_equal(parts[1], whole[1])


@pytest.mark.parametrize("k", [0, 10])
def test_k_out_of_bounds_names_its_parameter(save_matrix: Save, k: int) -> None:
    with pytest.raises(UserError, match=rf"build_graph.k is {k}: must be from 1 to the number of passages, 9"):
        exact_top_k(save_matrix(whole_numbers(0, 9, 4)), whole_numbers(1, 2, 4), k, name="build_graph.k")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_passages_must_be_finite(save_matrix: Save, value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "READ_ROWS", 4)
    matrix = whole_numbers(0, 9, 4)
    matrix[6, 2] = value
    with pytest.raises(UserError, match="row 6 holds NaN or an infinite value"):
        exact_top_k(save_matrix(matrix), whole_numbers(1, 2, 4), 3)


def test_queries_must_be_finite(save_matrix: Save) -> None:
    queries = whole_numbers(1, 3, 4)
    queries[2, 0] = np.nan
    with pytest.raises(UserError, match="query embeddings: row 2 holds NaN"):
        exact_top_k(save_matrix(whole_numbers(0, 9, 4)), queries, 3)
