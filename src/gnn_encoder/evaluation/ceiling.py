"""How far a system comes on the way from M_de to the ceiling, M_de's passages reordered by a cross-encoder."""

import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from gnn_encoder.evaluation.significance import Floats, resampled_means
from gnn_encoder.evaluation.values import by_split, on_shared_queries

RESAMPLES = 10_000
RESAMPLES_AT_A_TIME = 500


@dataclass(frozen=True, kw_only=True)
class Share:
    """A system's mean, and its share of the way from M_de (0) to the ceiling (1).

    `low` and `high` are the 95% interval of the share, by the paired bootstrap over queries. The share is None if the
    ceiling is not above M_de; an end of the interval is None if it is infinite.
    """

    mean: float
    share: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """Means of M_de and of the ceiling on the same queries, and the systems between them."""

    measure: str
    queries: int
    base: float
    ceiling: float
    systems: dict[str, Share]


def measure_ceiling(values: pl.DataFrame, measure: str, seed: int, *, base: str, ceiling: str) -> dict[str, Ceiling]:
    """Split -> shares of all systems but M_de and the ceiling, on the queries that all systems have.

    Args:
        values: columns system, split, qid, measure, value.
        base, ceiling: M_de and the ceiling; both are among the systems.
    """
    found: dict[str, Ceiling] = {}
    for split, part in by_split(on_shared_queries(values.filter(measure=measure))).items():
        wide = part.pivot("system", index="qid", values="value", maintain_order=True)
        names = [name for name in wide.columns if name not in ("qid", base, ceiling)]
        columns = wide.select(base, ceiling, *names).to_numpy()
        means = columns.mean(axis=0)
        drawn = resampled_means(columns, resamples=RESAMPLES, seed=seed, at_a_time=RESAMPLES_AT_A_TIME)
        found[split] = Ceiling(
            measure=measure,
            queries=len(columns),
            base=float(means[0]),
            ceiling=float(means[1]),
            systems={name: _share(means[[0, 1, i]], drawn[:, [0, 1, i]]) for i, name in enumerate(names, 2)},
        )
    return found


def _share(means: Floats, drawn: Floats) -> Share:
    """*Shape:* means (3,), drawn (resamples, 3): M_de, ceiling, system."""
    base, ceiling, mean = (float(value) for value in means)
    if ceiling <= base:
        return Share(mean=mean, share=None, low=None, high=None)
    way, gone = drawn[:, 1] - drawn[:, 0], drawn[:, 2] - drawn[:, 0]
    # Where the ceiling is not above M_de in a resample, the share has no value: a system above M_de then counts as
    # infinitely far, one below M_de as minus infinity, and one equal to M_de as 0.
    shares = np.select([gone > 0, gone < 0], [np.inf, -np.inf], 0.0)
    np.divide(gone, way, out=shares, where=way > 0)
    low, high = (float(end) for end in np.quantile(shares, [0.025, 0.975], method="inverted_cdf"))
    share = (mean - base) / (ceiling - base)
    return Share(mean=mean, share=share, low=_finite(low), high=_finite(high))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
