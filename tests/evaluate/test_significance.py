import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from gnn_encoder.evaluate import significance
from gnn_encoder.evaluate.significance import (
    Comparison,
    bootstrap_interval,
    compare,
    compare_pairs,
    holm,
    interval,
    resampled_means,
)


@pytest.fixture(autouse=True)
def warnings_are_errors() -> None:
    warnings.simplefilter("error")


def comparison(*, p: float, **values: Any) -> Comparison:
    return Comparison(baseline="", p=p, p_holm=p, **values)


def test_by_hand() -> None:
    # differences .1 .3 .2 0: mean .15, standard deviation sqrt(.05/3), error .0645497, t = 2.3237900 at 3 degrees
    found = compare(np.array([0.6, 0.8, 0.7, 0.5]), np.array([0.5, 0.5, 0.5, 0.5]))
    assert found.difference == pytest.approx(0.15)
    assert found.low == pytest.approx(0.15 - 3.182446 * 0.0645497, abs=1e-6)
    assert found.high == pytest.approx(0.15 + 3.182446 * 0.0645497, abs=1e-6)
    assert found.p == pytest.approx(2 * stats.t.sf(2.3237900, 3), abs=1e-7)
    assert found.queries == 4


def test_no_difference() -> None:
    values = np.array([0.5, 1.0, 0.25])
    assert compare(values, values) == comparison(difference=0.0, low=0.0, high=0.0, p=1.0, queries=3)


def test_one_and_the_same_difference() -> None:
    found = compare(np.array([1.0, 1.0]), np.array([0.5, 0.5]))
    assert found == comparison(difference=0.5, low=0.5, high=0.5, p=0.0, queries=2)


def test_a_single_query_proves_nothing() -> None:
    found = compare(np.array([1.0]), np.array([0.5]))
    assert found == comparison(difference=0.5, low=-1.0, high=1.0, p=1.0, queries=1)


def test_pairs_by_query_whatever_the_order() -> None:
    values = pl.DataFrame(
        [
            ("dual_encoder", "q1", 0.2),
            ("dual_encoder", "q2", 0.8),
            ("dual_encoder", "q3", 0.5),
            ("gnn_encoder", "q3", 0.6),
            ("gnn_encoder", "q2", 0.9),
            ("gnn_encoder", "q1", 0.5),
            ("pair", "q2", 0.9),
            ("pair", "q1", 0.9),
            ("pair", "q3", 0.6),
        ],
        schema=["system", "qid", "value"],
        orient="row",
    )
    found = compare_pairs(values, {"gnn_encoder": "dual_encoder", "pair": "gnn_encoder"})
    assert list(found) == ["gnn_encoder", "pair"]
    gnn = compare(np.array([0.5, 0.9, 0.6]), np.array([0.2, 0.8, 0.5]), "dual_encoder")
    pair = compare(np.array([0.9, 0.9, 0.6]), np.array([0.5, 0.9, 0.6]), "gnn_encoder")
    assert gnn.p < pair.p
    assert found["gnn_encoder"] == replace(gnn, p_holm=2 * gnn.p)
    assert found["pair"] == replace(pair, p_holm=pair.p)


def test_holm_by_hand() -> None:
    # sorted .01 .02 .03 .4: times 4 3 2 1 is .04 .06 .06 .4
    np.testing.assert_allclose(holm(np.array([0.02, 0.4, 0.01, 0.03])), [0.06, 0.4, 0.04, 0.06])
    np.testing.assert_allclose(holm(np.array([0.5, 0.4, 0.9])), [1.0, 1.0, 1.0])
    np.testing.assert_allclose(holm(np.array([0.03])), [0.03])
    assert len(holm(np.array([]))) == 0


def test_interval_of_a_mean() -> None:
    # mean .5, standard deviation .5, error .5 / sqrt(3)
    low, high = interval(np.array([0.0, 0.5, 1.0]))
    assert (low, high) == pytest.approx((0.5 - 4.302653 * 0.2886751, 0.5 + 4.302653 * 0.2886751), abs=1e-6)
    assert interval(np.array([0.3, 0.3])) == (0.3, 0.3)
    assert interval(np.array([0.3])) == (0.3, 0.3)


@pytest.mark.parametrize("at_a_time", [2, 3, 100_000])
def test_the_bootstrap_in_parts(at_a_time: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(significance, "RESAMPLES_AT_A_TIME", at_a_time)
    values = np.random.default_rng(2).random((30, 2))
    means = resampled_means(values, resamples=501, seed=3)
    assert means.shape == (501, 2)
    # A mean of resamples' means is the mean; their deviation is the standard error.
    np.testing.assert_allclose(means.mean(axis=0), values.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(means.std(axis=0), values.std(axis=0) / np.sqrt(30), rtol=0.15)
    assert means.min() >= values.min() and len(np.unique(means[:, 0])) > 400
    drawn = 7 * resampled_means(np.eye(7), resamples=501, seed=3)  # how often each row was drawn
    np.testing.assert_allclose(drawn, np.rint(drawn), atol=1e-12)
    np.testing.assert_allclose(drawn.sum(axis=1), 7)


def test_an_interval_by_the_bootstrap_is_near_that_of_the_t_distribution() -> None:
    values = np.random.default_rng(0).normal(0.1, 1, 400)
    assert bootstrap_interval(values, seed=1) == pytest.approx(interval(values), abs=0.01)
    assert bootstrap_interval(np.full(5, 0.25), seed=1) == pytest.approx((0.25, 0.25))
