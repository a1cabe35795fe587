"""Exact search against brute force over engines, blocks and k, where many scores tie; the keys that it sorts by."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gnn_encoder.base import matrix as arrays
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.matrix import open_matrix
from gnn_encoder.search import exact
from gnn_encoder.search.exact import MISSING, NOTHING, array_top_k, least, of_scores, once, unpack

from ..texts import whole_numbers, write_matrix

CPU = exact._Faiss()


@pytest.mark.parametrize("block_rows", [1, 50, 65_536])
@pytest.mark.parametrize("k", [1, 130, 150])
@pytest.mark.parametrize(("engine", "dtype"), [(CPU, "float16"), (CPU, "float32"), (exact._Torch("cpu"), "float32")])
def test_streaming_against_brute_force_with_ties(
    tmp_path: Path, block_rows: int, k: int, engine: Any, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oracle: every score in float64, a stable sort."""
    monkeypatch.setattr(arrays, "READ_ROWS", block_rows)
    monkeypatch.setattr(exact, "_engine", lambda: engine)
    monkeypatch.setattr(exact, "SCORES", 700)  # of all queries with some passages
    monkeypatch.setattr(exact, "MERGE_ENTRIES", k * 11)  # eleven queries at a time
    matrix, queries = whole_numbers(0, 150, 4), whole_numbers(1, 30, 4)
    right = queries.astype(np.float64) @ matrix.T
    expected, folder = np.argsort(-right, axis=1, kind="stable")[:, :k], write_matrix(tmp_path, matrix.astype(dtype))
    for read in (open_matrix(folder), matrix):
        rows, scores = array_top_k(read, queries, k)
        assert rows.dtype == np.int64 and scores.dtype == np.float32
        np.testing.assert_array_equal(rows, expected)
        np.testing.assert_array_equal(scores, np.take_along_axis(right, expected, axis=1))
    assert array_top_k(matrix, queries[:0], k)[0].shape == (0, k)


@pytest.mark.parametrize(
    ("k", "wrong", "told"),
    [
        (0, None, "build_graph.k is 0: must be from 1 to the number of passages, 9"),
        (10, None, "build_graph.k is 10: must be from 1 to the number of passages, 9"),
        (3, (0, 6, np.nan), "row 6 holds NaN or an infinite value"),
        (3, (0, 6, np.inf), "row 6 holds NaN or an infinite value"),
        (3, (1, 1, np.nan), "query embeddings: row 1 holds NaN"),
        (3, 6, r"shape \(2, 6\), the passages' dimension is 4"),
    ],
)
def test_refused(tmp_path: Path, k: int, wrong: Any, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`wrong`: a value in a row of passages or queries, or the dimension of the queries."""
    monkeypatch.setattr(arrays, "READ_ROWS", 4)
    sides = whole_numbers(0, 9, 4), whole_numbers(1, 2, wrong if isinstance(wrong, int) else 4)
    if isinstance(wrong, tuple):
        sides[wrong[0]][wrong[1], 2] = wrong[2]
    with pytest.raises(UserError, match=told):
        array_top_k(open_matrix(write_matrix(tmp_path, sides[0])), sides[1], k, name="build_graph.k")


# --- keys -------------------------------------------------------------------------------------------------------------

ROWS = np.array([[3, 2**31 - 2, 0, 5, 4, -1, 7, 6]])
SCORES = np.array([[0.5, 0.5, -1e-30, 3e38, -2.0, MISSING, 0.0, -0.0]], dtype=np.float32)


def test_keys_sort_as_scores_and_rows() -> None:
    keys = of_scores(ROWS, SCORES)
    rows, scores = unpack(np.sort(keys))
    assert rows.tolist() == [[5, 3, 2**31 - 2, 6, 7, 0, 4, -1]]
    assert scores.tolist() == [[*np.float32([3e38, 0.5, 0.5, 0, 0, -1e-30, -2]).tolist(), MISSING]]
    assert (rows.dtype, scores.dtype) == (np.int64, np.float32)
    bits = (torch.from_numpy(SCORES) + 0.0).view(torch.int32).long()
    assert exact.pack(torch.from_numpy(ROWS), bits).tolist() == keys.tolist()
    for k in (1, 3, 8, 20):
        assert np.sort(least(keys, k)).tolist() == np.sort(keys)[:, :k].tolist()
    keys = of_scores(np.array([[7, -1, 7, 2, 7, -1]]), np.array([[1, MISSING, 3, 2, -5, MISSING]], dtype=np.float32))
    found = np.sort(once(keys))  # a row stays once, with its best score
    rows, scores = unpack(found)
    assert rows.tolist() == [[7, 2, -1, -1, -1, -1]] and scores[0, :2].tolist() == [3, 2]
    assert found[0, 2:].tolist() == [NOTHING] * 4
