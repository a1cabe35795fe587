"""Several systems, each run with several seeds on the same queries: means, intervals, paired differences."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from gnn_encoder.evaluation.bootstrap import Floats, resampled_means
from gnn_encoder.evaluation.significance import LEVEL, Comparison, compare, corrected, interval

Name = tuple[str, str]  # system, measure
DRAWN_ENTRIES = 2**22  # resamples times queries in memory at a time


@dataclass(frozen=True, kw_only=True)
class Mean:
    """The mean of one system and measure, with its intervals.

    Attributes:
        mean: over queries and seeds.
        low, high: 95% interval over queries, of the mean over seeds (bootstrap).
        seeds: mean over queries for each seed.
        seed_low, seed_high: 95% interval over seeds (t distribution); of a single seed the mean itself.
    """

    mean: float
    low: float
    high: float
    seeds: list[float]
    seed_low: float
    seed_high: float


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Means and differences of one split."""

    means: dict[str, dict[str, Mean]]  # measure -> system -> mean
    against: dict[str, dict[str, Comparison]]  # baseline -> system -> its difference from it


def summarise(values: pl.DataFrame, *, tested: str, baselines: Sequence[str], resamples: int, seed: int) -> Summary:
    """Means and paired differences of one split.

    A difference compares two systems' means over seeds, query by query. Its interval is a bootstrap over queries. Its p
    is that of the paired t-test, with Holm's correction over all differences from all baselines.

    Args:
        values: columns system, seed, qid, measure, value; every system has the same queries and measures.
        tested: the measure of the differences.
        baselines: systems that the others are compared with. Two baselines are compared once, with the earlier one as
            the baseline.
        resamples: number of bootstrap samples of the queries; all systems and measures share the samples.
        seed: of the resamples.
    """
    averaged = values.group_by("qid", "system", "measure", maintain_order=True).agg(pl.col("value").mean())
    wide = averaged.pivot(["system", "measure"], index="qid", values="value", maintain_order=True).drop("qid")
    names: list[Name] = averaged.select("system", "measure").unique(maintain_order=True).rows()
    columns = dict(zip(names, wide.to_numpy().T, strict=True))
    at_a_time = max(1, DRAWN_ENTRIES // len(wide))
    drawn = resampled_means(wide.to_numpy(), resamples=resamples, seed=seed, at_a_time=at_a_time)
    resampled = dict(zip(names, drawn.T, strict=True))
    by_seed = {
        (str(system), str(measure)): rows.group_by("seed", maintain_order=True).agg(pl.col("value").mean())["value"]
        for (system, measure), rows in values.group_by("system", "measure", maintain_order=True)
    }
    means: dict[str, dict[str, Mean]] = {}
    for name in names:
        found = _mean(columns[name], resampled[name], by_seed[name].to_numpy())
        means.setdefault(name[1], {})[name[0]] = found
    pairs = [
        (baseline, system)
        for number, baseline in enumerate(baselines)
        for system in means[tested]
        if system not in baselines[: number + 1]
    ]
    return Summary(means=means, against=_differences(pairs, columns, resampled, tested))


def middle(resampled: Floats) -> tuple[float, float]:
    """The interval that holds the middle 95% of resampled values. *Shape:* (resamples,)."""
    low, high = np.quantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _mean(values: Floats, resampled: Floats, seeds: Floats) -> Mean:
    low, high = middle(resampled)
    seed_low, seed_high = interval(seeds)
    mean = float(values.mean())
    return Mean(mean=mean, low=low, high=high, seeds=seeds.tolist(), seed_low=seed_low, seed_high=seed_high)


def _differences(
    pairs: list[tuple[str, str]], columns: dict[Name, Floats], resampled: dict[Name, Floats], tested: str
) -> dict[str, dict[str, Comparison]]:
    tests = {pair: compare(columns[pair[1], tested], columns[pair[0], tested], pair[0]) for pair in pairs}
    found: dict[str, dict[str, Comparison]] = {}
    for (baseline, system), test in corrected(tests).items():
        low, high = middle(resampled[system, tested] - resampled[baseline, tested])
        found.setdefault(baseline, {})[system] = replace(test, low=low, high=high)
    return found


def as_json(found: dict[str, Summary]) -> dict[str, Any]:
    """Split -> `means` and `against`, as in `Summary`."""
    return {split: asdict(summary) for split, summary in found.items()}


def as_table(found: dict[str, Summary]) -> pl.DataFrame:
    """A row for each split, measure and system, with the fields of `Mean` other than `seeds`."""
    return pl.DataFrame(
        {"split": split, "measure": measure, "system": system, **asdict(replace(mean, seeds=[]))}
        for split, summary in found.items()
        for measure, means in summary.means.items()
        for system, mean in means.items()
    ).drop("seeds")
