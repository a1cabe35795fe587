"""Features of a graph that is cut to the best ranks, read where those of the whole one lie."""

import numpy as np
import pytest

from gnn_encoder.graph.features import EdgeFeatures

N, K, D = 4, 5, 3
STORED = np.arange(N * K * D, dtype=np.float16).reshape(N * K, D)


@pytest.mark.parametrize("k", [1, 3, 5])
def test_a_graph_that_is_cut(k: int) -> None:
    features = EdgeFeatures(STORED, STORED[:N], STORED[:1], np.zeros(2, np.int32), cut=(k, K))
    expected, some = STORED.reshape(N, K, D)[:, :k].reshape(N * k, D), np.array([[0, 2], [N * k - 1, 0]]) % (N * k)
    np.testing.assert_array_equal(features.of_edges(np.arange(N * k)), expected)
    np.testing.assert_array_equal(features.of_edges(some), expected[some])
