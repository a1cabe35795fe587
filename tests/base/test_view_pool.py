"""A passage's score from those of its views, by hand."""

import numpy as np
import pytest

from gnn_encoder.base.view_pool import Pool

OF_VIEWS = np.array([[[1.0, 3.0], [2.0, 2.0]], [[-1.0, -5.0], [0.0, 0.25]]], dtype=np.float32)


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        (Pool("max"), [[3, 2], [-1, 0.25]]),
        (Pool("mean"), [[2, 2], [-3, 0.125]]),
        (Pool("mean", plain=0.75), [[1.5, 2], [-2, 0.0625]]),
    ],
)
def test_scores(pool: Pool, expected: list[list[float]]) -> None:
    found = pool.scores(OF_VIEWS)
    assert found.dtype == np.float32 and found.shape == (2, 2)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_weights_of_the_mean() -> None:
    assert Pool("mean").weights(4).tolist() == [0.25] * 4
    assert Pool("mean", plain=0.5).weights(5).tolist() == [0.5, 0.125, 0.125, 0.125, 0.125]
    assert Pool("mean", plain=0.5).weights(1).tolist() == [1]
