"""Whether two systems differ on the same questions: the paired t-test."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A system minus the baseline: mean difference, its 95% interval, two-sided p, number of questions."""

    difference: float
    low: float
    high: float
    p: float
    queries: int


def compare(system: NDArray[np.float64], baseline: NDArray[np.float64]) -> Comparison:
    """Paired t-test of two systems' values on the same questions, in the same order.

    Where every question has one and the same difference there is no spread to test against: no difference at all has
    p = 1 and the interval [0, 0]; another one has p = 0. A single question proves nothing: p = 1 and every
    difference that values in 0..1 allow.

    *Shape:* (questions,) each.
    """
    differences = system - baseline
    n_queries, mean = len(differences), float(differences.mean())
    if n_queries == 1:
        return Comparison(difference=mean, low=-1.0, high=1.0, p=1.0, queries=1)
    if np.ptp(differences) == 0:
        return Comparison(difference=mean, low=mean, high=mean, p=float(mean == 0), queries=n_queries)
    test = stats.ttest_rel(system, baseline)
    interval = test.confidence_interval(LEVEL)
    return Comparison(
        difference=mean, low=float(interval.low), high=float(interval.high), p=float(test.pvalue), queries=n_queries
    )


def compare_all(values: pl.DataFrame, measure: str, baseline: str) -> dict[str, Comparison]:
    """Every system but the baseline against it.

    Args:
        values: Columns system, qid, measure, value, of one split; every system has the same questions.
        measure: The one that is tested.
        baseline: A system in `values`.
    """
    chosen = values.filter(pl.col("measure") == measure)
    wide = chosen.pivot("system", index="qid", values="value", maintain_order=True)
    reference = wide[baseline].to_numpy()
    systems = [name for name in wide.columns if name not in ("qid", baseline)]
    return {name: compare(wide[name].to_numpy(), reference) for name in systems}


def interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """95% interval of a mean (t distribution); of fewer than two values, or equal ones, the mean itself.

    *Shape:* (questions,).
    """
    mean = float(values.mean())
    if len(values) < 2 or np.ptp(values) == 0:
        return mean, mean
    low, high = stats.t.interval(LEVEL, len(values) - 1, loc=mean, scale=stats.sem(values))
    return float(low), float(high)
