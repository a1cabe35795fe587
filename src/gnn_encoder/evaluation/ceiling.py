"""Which share of the way from M_de to the ceiling, M_de's passages reordered by a cross-encoder, a system covers."""

import math
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.core.systems import CEILING, REFERENCE
from gnn_encoder.evaluation.bootstrap import resampled_means

RESAMPLES = 10_000
RESAMPLES_AT_A_TIME = 500


@dataclass(frozen=True, kw_only=True)
class Share:
    """A system's mean, and its share of the way with a 95% interval by the paired bootstrap over queries.

    The share is None where the ceiling is not above M_de, an end of the interval where it has no bound.
    """

    mean: float
    share: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """Means of M_de and of the ceiling on the same queries, and the systems between them."""

    measure: str
    questions: int  # queries; the files of metrics/ keep their keys
    base: float
    ceiling: float
    systems: dict[str, Share]


def measure_ceiling(values: pl.DataFrame, measure: str, seed: int) -> dict[str, Ceiling]:
    """Split -> shares of all systems but the two ends, on the queries that all systems have.

    Args:
        values: columns system, split, qid, measure, value; M_de and the ceiling are among the systems.
    """
    chosen = on_shared_queries(values.filter(pl.col("measure") == measure))
    return {
        str(split): _of_split(part, measure, seed) for (split,), part in chosen.group_by("split", maintain_order=True)
    }


def on_shared_queries(values: pl.DataFrame) -> pl.DataFrame:
    """The rows of queries that every system of the table has: a system may know a sample alone."""
    systems = values["system"].n_unique()
    return values.filter(pl.col("system").n_unique().over("split", "qid") == systems)


def _of_split(values: pl.DataFrame, measure: str, seed: int) -> Ceiling:
    wide = values.pivot("system", index="qid", values="value", maintain_order=True)
    names = [name for name in wide.columns if name not in ("qid", REFERENCE, CEILING)]
    columns = wide.select(REFERENCE, CEILING, *names).to_numpy()
    means = columns.mean(axis=0)
    drawn = resampled_means(columns, resamples=RESAMPLES, seed=seed, at_a_time=RESAMPLES_AT_A_TIME)
    systems = {name: _share(means[[0, 1, i]], drawn[:, [0, 1, i]]) for i, name in enumerate(names, 2)}
    return Ceiling(
        measure=measure, questions=len(columns), base=float(means[0]), ceiling=float(means[1]), systems=systems
    )


def _share(means: NDArray[np.float64], drawn: NDArray[np.float64]) -> Share:
    """*Shape:* means (3,), drawn (resamples, 3): M_de, ceiling, system."""
    base, ceiling, mean = (float(value) for value in means)
    if ceiling <= base:
        return Share(mean=mean, share=None, low=None, high=None)
    way, gone = drawn[:, 1] - drawn[:, 0], drawn[:, 2] - drawn[:, 0]
    # Where a sample's ceiling is not above M_de, any gain is more than all of the way, any loss less than none of it.
    shares = np.select([gone > 0, gone < 0], [np.inf, -np.inf], 0.0)
    np.divide(gone, way, out=shares, where=way > 0)
    low, high = (float(end) for end in np.quantile(shares, [0.025, 0.975], method="inverted_cdf"))
    share = (mean - base) / (ceiling - base)
    return Share(mean=mean, share=share, low=_finite(low), high=_finite(high))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
