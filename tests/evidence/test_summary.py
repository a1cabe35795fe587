"""Means, intervals and differences against worked-out values, SciPy, and each other."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

from gnn_encoder.evaluation.significance import holm
from gnn_encoder.evidence.summary import summarise

QUERIES, SEEDS = 60, 4


def table(systems: dict[str, np.ndarray], measure: str = "RR@10") -> pl.DataFrame:
    """Rows of values given as (seeds, queries) by system."""
    rows = [
        (system, seed, f"q{query}", measure, float(value))
        for system, values in systems.items()
        for seed, per_query in enumerate(values)
        for query, value in enumerate(per_query)
    ]
    return pl.DataFrame(rows, schema=["system", "seed", "qid", "measure", "value"], orient="row")


@pytest.fixture
def systems() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    full = generator.integers(0, 65, (SEEDS, QUERIES)) / 64  # exact in binary, as their means over seeds are
    return {
        "full": full,
        "ablated": full - 0.05 - 0.1 * generator.random((SEEDS, QUERIES)),
        "shifted": full - 0.25,
        "no_gnn": generator.random((SEEDS, QUERIES)),
    }


def summary(values: pl.DataFrame, baselines: tuple[str, ...] = ("full", "no_gnn"), resamples: int = 2000):
    return summarise(values, tested="RR@10", baselines=baselines, resamples=resamples, seed=1)


def test_means_by_hand() -> None:
    values = table({"full": np.array([[1.0, 0.0], [0.5, 0.5]]), "no_gnn": np.array([[0.0, 0.0], [1.0, 0.0]])})
    found = summary(values).means["RR@10"]
    assert found["full"].mean == 0.5 and found["full"].seeds == [0.5, 0.5]
    assert (found["full"].seed_low, found["full"].seed_high) == (0.5, 0.5)
    assert found["no_gnn"].mean == 0.25 and found["no_gnn"].seeds == [0.0, 0.5]
    # Seeds 0 and .5: standard error .25, t of one degree of freedom at 97.5% is 12.7062.
    assert found["no_gnn"].seed_high == pytest.approx(0.25 + 12.7062 * 0.25, abs=1e-4)
    # Two queries of .75 and .25 (mean over seeds): a resample's mean is .25, .5 or .75.
    assert (found["full"].low, found["full"].high) == (0.25, 0.75)


def test_intervals_are_those_of_another_bootstrap(systems: dict[str, np.ndarray]) -> None:
    found = summary(table(systems), resamples=20_000)
    for name, mean in found.means["RR@10"].items():
        averaged = systems[name].mean(axis=0)
        other = stats.bootstrap(
            (averaged,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(5)
        ).confidence_interval
        assert (mean.low, mean.high) == pytest.approx((other.low, other.high), abs=0.002)
    difference = systems["ablated"].mean(axis=0) - systems["full"].mean(axis=0)
    other = stats.bootstrap(
        (difference,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(6)
    ).confidence_interval
    against = found.against["full"]["ablated"]
    assert against.difference == pytest.approx(difference.mean())
    assert (against.low, against.high) == pytest.approx((other.low, other.high), abs=2e-4)


def test_differences_are_paired(systems: dict[str, np.ndarray]) -> None:
    """Every query differs by one number: resampling queries cannot blur it, however wide the means' intervals."""
    found = summary(table(systems))
    shifted = found.against["full"]["shifted"]
    assert (shifted.difference, shifted.low, shifted.high) == pytest.approx((-0.25,) * 3)
    assert found.means["RR@10"]["full"].high - found.means["RR@10"]["full"].low > 0.05


def test_every_pair_is_compared_once_and_corrected_together(systems: dict[str, np.ndarray]) -> None:
    found = summary(table(systems))
    assert {name: list(rows) for name, rows in found.against.items()} == {
        "full": ["ablated", "shifted", "no_gnn"],
        "no_gnn": ["ablated", "shifted"],
    }
    averaged = {name: values.mean(axis=0) for name, values in systems.items()}
    pairs = [(b, s) for b, rows in found.against.items() for s in rows if s != "shifted" or b != "full"]
    for baseline, system in pairs:
        p = stats.ttest_rel(averaged[system], averaged[baseline]).pvalue
        assert found.against[baseline][system].p == pytest.approx(p)
    every = [row for rows in found.against.values() for row in rows.values()]
    np.testing.assert_allclose([row.p_holm for row in every], holm(np.array([row.p for row in every])))
    assert all(row.queries == QUERIES for row in every)
