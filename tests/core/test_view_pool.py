"""A passage's score from those of its views, by hand."""

import numpy as np
import pytest

from gnn_encoder.core.view_pool import Pool

OF_VIEWS = np.array([[[1.0, 3.0], [2.0, 2.0]], [[-1.0, -5.0], [0.0, 0.25]]], dtype=np.float32)


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        (Pool("max"), [[3, 2], [-1, 0.25]]),
        (Pool("mean"), [[2, 2], [-3, 0.125]]),
        (Pool("mean", plain=0.75), [[1.5, 2], [-2, 0.0625]]),
        # exp(s / 2) of 1 and 3 is as 1 to e = 2.71828: (1 + 3 e) / (1 + e); of -1 and -5 as e^2 = 7.38906 to 1.
        (Pool("softmax", 2.0), [[2.4621172, 2], [-1.4768117, 0.1328016]]),
    ],
)
def test_scores(pool: Pool, expected: list[list[float]]) -> None:
    found = pool.scores(OF_VIEWS)
    assert found.dtype == np.float32 and found.shape == (2, 2)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_high_scores_at_a_low_temperature_do_not_overflow() -> None:
    assert Pool("softmax", 1e-3).scores(np.array([[400.0, 399.0]], dtype=np.float32)).tolist() == [400.0]


def test_weights_of_the_mean() -> None:
    assert Pool("mean").weights(4).tolist() == [0.25] * 4
    assert Pool("mean", plain=0.5).weights(5).tolist() == [0.5, 0.125, 0.125, 0.125, 0.125]
    assert Pool("mean", plain=0.5).weights(1).tolist() == [1]
