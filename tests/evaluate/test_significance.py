import warnings
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import stats

from gnn_encoder.evaluate import significance
from gnn_encoder.evaluate.significance import (
    Comparison,
    bootstrap_interval,
    compare,
    compare_with,
    holm,
    interval,
)


@pytest.fixture(autouse=True)
def warnings_are_errors() -> None:
    warnings.simplefilter("error")


def test_by_hand() -> None:
    # differences .1 .3 .2 0: mean .15, standard deviation sqrt(.05/3), error .0645497, t = 2.3237900 at 3 degrees
    found = compare(np.array([0.6, 0.8, 0.7, 0.5]), np.array([0.5, 0.5, 0.5, 0.5]))
    assert found.difference == pytest.approx(0.15)
    assert found.low == pytest.approx(0.15 - 3.182446 * 0.0645497, abs=1e-6)
    assert found.high == pytest.approx(0.15 + 3.182446 * 0.0645497, abs=1e-6)
    assert found.p == pytest.approx(2 * stats.t.sf(2.3237900, 3), abs=1e-7)
    assert found.queries == 4


@pytest.mark.parametrize(
    ("system", "baseline", "difference", "low", "high", "p"),
    [
        ([0.5, 1.0, 0.25], [0.5, 1.0, 0.25], 0.0, 0.0, 0.0, 1.0),
        ([1.0, 1.0], [0.5, 0.5], 0.5, 0.5, 0.5, 0.0),  # one and the same difference
        ([1.0], [0.5], 0.5, -1.0, 1.0, 1.0),  # a single query proves nothing
    ],
)
def test_without_spread(
    system: list[float], baseline: list[float], difference: float, low: float, high: float, p: float
) -> None:
    ends = {"low": low, "high": high, "p": p, "p_holm": p, "queries": len(system)}
    found = compare(np.array(system), np.array(baseline))
    assert found == Comparison(baseline="", difference=difference, **ends)


def test_pairs_by_query_whatever_the_order() -> None:
    of = {
        "dual_encoder": {"q1": 0.2, "q2": 0.8, "q3": 0.5},
        "gnn_encoder": {"q3": 0.6, "q2": 0.9, "q1": 0.5},
        "pair": {"q2": 0.9, "q1": 0.9, "q3": 0.6},
    }
    rows = [(system, "dev", qid, "RR@10", value) for system, values in of.items() for qid, value in values.items()]
    rows += [(system, "dev", "q1", "R@5", 0.0) for system in of]
    values = pl.DataFrame(rows, schema=["system", "split", "qid", "measure", "value"], orient="row")
    found = compare_with(values, "RR@10", {"gnn_encoder": "dual_encoder", "pair": "gnn_encoder"})["dev"]
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


def test_the_bootstrap_is_near_the_t_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(0.1, 1, 400)
    found = bootstrap_interval(values, seed=1)
    assert found == pytest.approx(interval(values), abs=0.01)
    assert bootstrap_interval(np.full(5, 0.25), seed=1) == pytest.approx((0.25, 0.25))
    monkeypatch.setattr(significance, "RESAMPLES_AT_A_TIME", 7)
    assert bootstrap_interval(values, seed=1) == pytest.approx(found, abs=1e-12), "in parts"
