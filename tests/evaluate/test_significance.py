import warnings
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import stats

from gnn_encoder.evaluate import measures
from gnn_encoder.evaluate.measures import Comparison, bootstrap_interval, compare, compare_with, holm, interval


@pytest.fixture(autouse=True)
def warnings_are_errors() -> None:
    warnings.simplefilter("error")


@pytest.mark.parametrize("size", [2, 4, 50])
def test_against_scipy(size: int) -> None:
    """The interval of a mean too."""
    system, baseline = np.random.default_rng(size).normal(size=(2, size))
    found, expected = compare(system, baseline), stats.ttest_rel(system, baseline)
    ends = (found.difference, found.p, found.low, found.high)
    low, high = expected.confidence_interval()
    assert ends == pytest.approx(((system - baseline).mean(), expected.pvalue, low, high), abs=1e-9)
    assert found.queries == size and interval(system - baseline) == pytest.approx((low, high), abs=1e-9)
    assert interval(np.full(2, 0.3)) == interval(np.array([0.3])) == (0.3, 0.3)


@pytest.mark.parametrize(
    ("system", "baseline", "difference", "ends", "p"),
    [
        ([0.5, 1.0, 0.25], [0.5, 1.0, 0.25], 0.0, (0.0, 0.0), 1.0),
        ([1.0, 1.0], [0.5, 0.5], 0.5, (0.5, 0.5), 0.0),  # one and the same difference
        ([1.0], [0.5], 0.5, (-1.0, 1.0), 1.0),  # a single query proves nothing
    ],
)
def test_without_spread(system: list[float], baseline: list[float], difference: float, ends: tuple, p: float) -> None:
    expected = {"low": ends[0], "high": ends[1], "p": p, "p_holm": p, "queries": len(system)}
    assert compare(np.array(system), np.array(baseline)) == Comparison(baseline="", difference=difference, **expected)


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
    for values in ([0.03], []):
        np.testing.assert_allclose(holm(np.array(values)), values)


def test_the_bootstrap_is_near_the_t_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(0.1, 1, 400)
    found = bootstrap_interval(values, seed=1)
    assert found == pytest.approx(interval(values), abs=0.01)
    assert bootstrap_interval(np.full(5, 0.25), seed=1) == pytest.approx((0.25, 0.25))
    monkeypatch.setattr(measures, "RESAMPLES_AT_A_TIME", 7)
    assert bootstrap_interval(values, seed=1) == pytest.approx(found, abs=1e-12), "in parts"
