"""Slices: systems on the queries that share a label, and whether they differ from a baseline there.

Labels are a table: a column qid, and a column for each property of the queries.
"""

from dataclasses import dataclass
from typing import Any

import polars as pl

from gnn_encoder.evaluation.significance import Comparison, compare, corrected
from gnn_encoder.evaluation.values import by_split

SIMILARITY, LABELLED, CUT = "similarity", "labelled", "cut"  # the properties


@dataclass(frozen=True, kw_only=True)
class About:
    """What the labels of a split mean.

    Attributes:
        thirds: similarities from which on a query is in the middle third, and in the upper third.
        passage_length: most tokens that the encoder reads of a passage, special ones included.
        left_out: properties without a column, because nobody knows which passages are relevant.
    """

    thirds: tuple[float, float]
    passage_length: int
    left_out: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Slice:
    """The judged queries with one label of a property; without a query there are no means.

    Attributes:
        queries: how many there are.
        means: system -> mean of the measure over them, in 0..1.
        against: system -> its comparison with the baseline; p_holm is corrected for all slices of the system.
    """

    queries: int
    means: dict[str, float]
    against: dict[str, Comparison]


Slices = dict[str, dict[str, Slice]]  # property -> label -> slice
Labels = dict[str, tuple[pl.DataFrame, About]]  # split -> its labels, and what they mean


@dataclass(frozen=True, kw_only=True)
class Sliced:
    """The slices of a split, with what their labels mean."""

    measure: str
    baseline: str
    about: About
    slices: Slices


def slice_systems(values: pl.DataFrame, labels: pl.DataFrame, baseline: str) -> Slices:
    """Mean of each system on each slice, and its difference from the baseline there.

    Args:
        values: columns system, qid, value, of one measure and split; every system has the same queries.
        labels: column qid, and a column of labels for each property; a query with null is in no slice of the property.
    """
    wide = values.pivot("system", index="qid", values="value", maintain_order=True)
    systems = [name for name in wide.columns if name != "qid"]
    parts = {
        (name, label): wide.filter(pl.col("qid").is_in(labels.filter(pl.col(name) == label)["qid"].implode()))
        for name in labels.columns
        if name != "qid"
        for label in labels[name].drop_nulls().unique().sort()
    }
    compared = {system: _compared(parts, system, baseline) for system in systems if system != baseline}
    found: Slices = {}
    for (name, label), of in parts.items():
        found.setdefault(name, {})[str(label)] = Slice(
            queries=len(of),
            means={system: float(of[system].to_numpy().mean()) for system in systems if len(of)},
            against={system: tests[name, label] for system, tests in compared.items() if (name, label) in tests},
        )
    return found


def _compared(
    parts: dict[tuple[str, Any], pl.DataFrame], system: str, baseline: str
) -> dict[tuple[str, Any], Comparison]:
    columns = {key: (of[system].to_numpy(), of[baseline].to_numpy()) for key, of in parts.items() if len(of)}
    return corrected({key: compare(*values, baseline) for key, values in columns.items()})


def slice_splits(values: pl.DataFrame, labels: Labels, measure: str, baseline: str) -> dict[str, Sliced]:
    """Split -> its slices.

    Args:
        values: columns system, split, qid, measure, value.
    """
    found = {}
    for split, rows in by_split(values.filter(measure=measure)).items():
        table, about = labels[split]
        slices = slice_systems(rows, table, baseline)
        found[split] = Sliced(measure=measure, baseline=baseline, about=about, slices=slices)
    return found
