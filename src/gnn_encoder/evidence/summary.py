"""The trials of a table, each run with several seeds on the same queries: means, intervals, paired differences."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from gnn_encoder.core.records import open_parquet
from gnn_encoder.evaluation.significance import LEVEL, Comparison, Floats, compare, corrected, interval, resampled_means
from gnn_encoder.evidence.params import ABLATIONS, BETA, FULL, K
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params

Name = tuple[str, str]  # system, measure
DRAWN_ENTRIES = 2**22  # resamples times queries in memory at a time


@dataclass(frozen=True, kw_only=True)
class SeedMean:
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

    means: dict[str, dict[str, SeedMean]]  # measure -> system -> mean
    against: dict[str, dict[str, Comparison]]  # baseline -> system -> its difference from it


def trials_of(table: str, params: Params) -> dict[str, Path]:
    """Name in a table -> folder of measures, for each trial of the table. In a sweep the name is the trial's number."""
    chosen = {name: trial for name, trial in params.evidence.trials.items() if trial.table == table}
    shown = {name: {ABLATIONS: name, K: one.k, BETA: one.mgt.get("beta")}[table] for name, one in chosen.items()}
    return {str(number): project.trial(name) for name, number in shown.items()}


def baselines(table: str, params: Params) -> list[str]:
    """The systems that the others are compared with; in a sweep, the one with the main system's k or beta."""
    controls = [name for name in ("no_gnn", "dual_encoder") if name in params.evidence.trials]
    return {ABLATIONS: [FULL, *controls], K: [str(params.build_graph.k)], BETA: [str(params.mgt.beta)]}[table]


def read_trials(table: str, params: Params) -> pl.DataFrame:
    """Columns system, seed, split, qid, measure, value, the baselines first.

    A sweep's baseline is the main system: the trial `full`, unless the sweep has a trial with the same number.
    """
    folders = trials_of(table, params)
    first = baselines(table, params)[0]
    ordered = {first: folders.get(first, project.trial(FULL)), **folders}
    values = {name: pl.DataFrame(open_parquet(of / project.VALUES).read()) for name, of in ordered.items()}
    return pl.concat([of.select(pl.lit(name).alias("system"), pl.all()) for name, of in values.items()])


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
    means: dict[str, dict[str, SeedMean]] = {}
    for system, measure in names:
        name = system, measure
        means.setdefault(measure, {})[system] = _mean(columns[name], resampled[name], by_seed[name].to_numpy())
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


def _mean(values: Floats, resampled: Floats, seeds: Floats) -> SeedMean:
    low, high = middle(resampled)
    seed_low, seed_high = interval(seeds)
    mean = float(values.mean())
    return SeedMean(mean=mean, low=low, high=high, seeds=seeds.tolist(), seed_low=seed_low, seed_high=seed_high)


def _differences(
    pairs: list[Name], columns: dict[Name, Floats], resampled: dict[Name, Floats], tested: str
) -> dict[str, dict[str, Comparison]]:
    tests = {pair: compare(columns[pair[1], tested], columns[pair[0], tested], pair[0]) for pair in pairs}
    found: dict[str, dict[str, Comparison]] = {}
    for (baseline, system), test in corrected(tests).items():
        low, high = middle(resampled[system, tested] - resampled[baseline, tested])
        found.setdefault(baseline, {})[system] = replace(test, low=low, high=high)
    return found
