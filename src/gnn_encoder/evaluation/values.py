"""Measured values of several systems as one table: their means, and comparisons of a system with another one.

The table has columns system, split, qid, measure, value.
"""

from collections.abc import Sequence

import polars as pl

from gnn_encoder.evaluation.measures import mean
from gnn_encoder.evaluation.significance import Comparison, compare_pairs

Means = dict[str, dict[str, float]]  # system -> measure -> value in 0..1
Comparisons = dict[str, Comparison]  # system -> its comparison with its baseline


def means_by_system(values: pl.DataFrame, measures: Sequence[str]) -> dict[str, Means]:
    """Split -> system -> measure -> mean, of these measures."""
    return {
        split: {name: mean(part) for (name,), part in rows.group_by("system", maintain_order=True)}
        for split, rows in by_split(values.filter(pl.col("measure").is_in(list(measures)))).items()
    }


def compare_with(values: pl.DataFrame, measure: str, baselines: dict[str, str]) -> dict[str, Comparisons]:
    """Split -> system -> its comparison with its baseline, with Holm's correction over a split's comparisons.

    Args:
        baselines: system -> the system that it is compared with; systems without a baseline are not compared.
    """
    return {split: compare_pairs(rows, baselines) for split, rows in by_split(values.filter(measure=measure)).items()}


def on_shared_queries(values: pl.DataFrame) -> pl.DataFrame:
    """The rows of queries that every system of the table has: some systems are judged on a sample of the queries."""
    systems = values["system"].n_unique()
    return values.filter(pl.col("system").n_unique().over("split", "qid") == systems)


def by_split(values: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Split -> its rows, in the table's order."""
    return {str(split): rows for (split,), rows in values.group_by("split", maintain_order=True)}
