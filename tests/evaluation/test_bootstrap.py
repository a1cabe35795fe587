import numpy as np
import pytest

from gnn_encoder.evaluation.bootstrap import resampled_means


@pytest.mark.parametrize("at_a_time", [2, 3, 100_000])
def test_resamples_in_parts(at_a_time: int) -> None:
    values = np.random.default_rng(2).random((30, 2))
    means = resampled_means(values, resamples=501, seed=3, at_a_time=at_a_time)
    assert means.shape == (501, 2)
    # A mean of resamples' means is the mean; their deviation is the standard error.
    np.testing.assert_allclose(means.mean(axis=0), values.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(means.std(axis=0), values.std(axis=0) / np.sqrt(30), rtol=0.15)
    assert means.min() >= values.min() and len(np.unique(means[:, 0])) > 400


def test_the_draws_do_not_depend_on_the_parts() -> None:
    values = np.eye(7)  # a resample's means are how often each row was drawn, divided by 7
    whole = resampled_means(values, resamples=501, seed=3, at_a_time=501)
    parts = resampled_means(values, resamples=501, seed=3, at_a_time=100)
    np.testing.assert_array_equal(np.rint(7 * whole), np.rint(7 * parts))
    np.testing.assert_allclose(7 * whole, np.rint(7 * whole), atol=1e-12)
