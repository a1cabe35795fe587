"""Means over queries with 95% intervals, as the figures of systems draw them."""

from dataclasses import dataclass

import polars as pl

from gnn_encoder.evaluation.significance import interval


@dataclass(frozen=True, kw_only=True)
class Mean:
    """Mean of a measure over queries, in 0..1, and half the width of its 95% interval."""

    mean: float
    half: float | None = None
    queries: int | None = None


Means = dict[str, dict[str, Mean]]  # system -> measure -> mean


def means_of(values: pl.DataFrame) -> dict[str, Means]:
    """Split -> system -> measure -> mean. `values`: columns system, split, measure, value."""
    found: dict[str, Means] = {}
    for (split, system, measure), part in values.group_by("split", "system", "measure", maintain_order=True):
        numbers = part["value"].to_numpy()
        low, high = interval(numbers)
        mean = Mean(mean=float(numbers.mean()), half=(high - low) / 2, queries=len(numbers))
        found.setdefault(str(split), {}).setdefault(str(system), {})[str(measure)] = mean
    return found
