"""Features of a graph that is cut to the best ranks, read where those of the whole one lie."""

import numpy as np
import pytest

from gnn_encoder.graph.features import Leading

N, K, D = 4, 5, 3
STORED = np.arange(N * K * D, dtype=np.float16).reshape(N * K, D)


@pytest.mark.parametrize("k", [1, 3, 5])
def test_leading_edges(k: int) -> None:
    leading, expected = Leading(STORED, K, k), STORED.reshape(N, K, D)[:, :k].reshape(N * k, D)
    assert leading.shape == expected.shape
    np.testing.assert_array_equal(leading[np.arange(N * k)], expected)
    some = np.array([[0, 2], [N * k - 1, 0]]) % (N * k)
    np.testing.assert_array_equal(leading[some], expected[some])
