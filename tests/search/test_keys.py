"""Keys of rows and scores: they sort as a score falling, then a row rising, and give back what was packed."""

import numpy as np
import pytest
import torch

from gnn_encoder.search.exact import MISSING, NOTHING, least, of_scores, once, pack, unpack

ROWS = np.array([[3, 2**31 - 2, 0, 5, 4, -1, 7, 6]])
SCORES = np.array([[0.5, 0.5, -1e-30, 3e38, -2.0, MISSING, 0.0, -0.0]], dtype=np.float32)


def test_they_sort_as_scores_and_rows() -> None:
    rows, scores = unpack(np.sort(of_scores(ROWS, SCORES)))
    assert rows.tolist() == [[5, 3, 2**31 - 2, 6, 7, 0, 4, -1]]
    assert scores.tolist() == [[*np.float32([3e38, 0.5, 0.5, 0, 0, -1e-30, -2]).tolist(), MISSING]]
    assert (rows.dtype, scores.dtype) == (np.int64, np.float32)


def test_torch_packs_the_same() -> None:
    bits = (torch.from_numpy(SCORES) + 0.0).view(torch.int32).long()
    assert pack(torch.from_numpy(ROWS), bits).tolist() == of_scores(ROWS, SCORES).tolist()


@pytest.mark.parametrize("k", [1, 3, 8, 20])
def test_the_least_are_the_best(k: int) -> None:
    keys = of_scores(ROWS, SCORES)
    assert np.sort(least(keys, k)).tolist() == np.sort(keys)[:, :k].tolist()


def test_a_row_stays_once_with_its_best_score() -> None:
    keys = of_scores(np.array([[7, -1, 7, 2, 7, -1]]), np.array([[1, MISSING, 3, 2, -5, MISSING]], dtype=np.float32))
    found = np.sort(once(keys, np.sort))
    rows, scores = unpack(found)
    assert rows.tolist() == [[7, 2, -1, -1, -1, -1]] and scores[0, :2].tolist() == [3, 2]
    assert found[0, 2:].tolist() == [NOTHING] * 4
