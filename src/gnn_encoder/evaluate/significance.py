"""Whether two systems differ on the same queries: the paired t-test, with a correction for several comparisons.

Also the bootstrap over queries, for what has no t-test.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from gnn_encoder.evaluate.measures import by_split

LEVEL = 0.95
RESAMPLES_AT_A_TIME = 500
Floats = NDArray[np.float64]
Key = TypeVar("Key")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A system minus the baseline: mean difference, its 95% interval, two-sided p, number of queries."""

    baseline: str
    difference: float
    low: float
    high: float
    p: float
    p_holm: float  # after Holm's correction for all comparisons made together
    queries: int


Comparisons = dict[str, Comparison]  # system -> its comparison with its baseline


def compare(system: Floats, baseline: Floats, name: str = "") -> Comparison:
    """Paired t-test of two systems' values on the same queries, in the same order; `name` is the baseline's.

    Where the difference is the same for every query, both ends of the interval are that difference, and p is 1 for a
    difference of 0, else 0. A single query proves nothing: p is 1, the interval [-1, 1]. *Shape:* (queries,) each.
    """
    differences = system - baseline
    mean = float(differences.mean())
    low, high, p = mean, mean, float(mean == 0)
    if len(differences) == 1:
        low, high, p = -1.0, 1.0, 1.0
    elif np.ptp(differences) > 0:
        test = stats.ttest_rel(system, baseline)
        found = test.confidence_interval(LEVEL)
        low, high, p = float(found.low), float(found.high), float(test.pvalue)
    return Comparison(baseline=name, difference=mean, low=low, high=high, p=p, p_holm=p, queries=len(differences))


def holm(p: Floats) -> Floats:
    """Holm's step-down correction: the i-th smallest of n p times n - i + 1, ascending, at most 1. *Shape:* (n,)."""
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(stepped)
    corrected[order] = np.minimum(1.0, stepped)
    return corrected


def corrected(found: dict[Key, Comparison]) -> dict[Key, Comparison]:
    """The comparisons with their p after Holm's correction for all of them."""
    ps = holm(np.array([comparison.p for comparison in found.values()]))
    return {key: replace(comparison, p_holm=float(p)) for (key, comparison), p in zip(found.items(), ps, strict=True)}


def compare_with(values: pl.DataFrame, measure: str, baselines: dict[str, str]) -> dict[str, Comparisons]:
    """Split -> each system of `baselines` against its own there, with Holm's correction over all of the split."""
    found = {}
    for split, rows in by_split(values.filter(measure=measure)).items():
        wide = rows.pivot("system", index="qid", values="value", maintain_order=True)
        pairs = baselines.items()
        one = {name: compare(wide[name].to_numpy(), wide[other].to_numpy(), other) for name, other in pairs}
        found[split] = corrected(one)
    return found


def interval(values: Floats) -> tuple[float, float]:
    """95% interval of a mean (t distribution); of one value, or equal ones, the mean twice. *Shape:* (queries,)."""
    mean = float(values.mean())
    if len(values) < 2 or np.ptp(values) == 0:
        return mean, mean
    low, high = stats.t.interval(LEVEL, len(values) - 1, loc=mean, scale=stats.sem(values))
    return float(low), float(high)


def bootstrap_interval(values: Floats, *, seed: int, resamples: int = 10_000) -> tuple[float, float]:
    """95% interval of a mean, from those of as many queries drawn with replacement. *Shape:* (queries,)."""
    rows, generator, means = len(values), np.random.default_rng(seed), []
    for first in range(0, resamples, RESAMPLES_AT_A_TIME):
        size = min(RESAMPLES_AT_A_TIME, resamples - first)
        counts = generator.multinomial(rows, np.full(rows, 1 / rows), size=size)  # how often each query is drawn
        means.append(counts @ values / rows)
    low, high = np.quantile(np.concatenate(means), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
