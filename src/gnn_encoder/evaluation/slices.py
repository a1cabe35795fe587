"""Slices: systems on the queries that share a label, and whether they differ from a baseline there."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.evaluation.labels import About, read_about, read_labels
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.params import Evaluate
from gnn_encoder.evaluation.significance import Comparison, compare, corrected


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


@dataclass(frozen=True, kw_only=True)
class Sliced:
    """The slices of a split, with what their labels mean."""

    measure: str
    baseline: str
    about: About
    slices: Slices


def slice_systems(values: pl.DataFrame, labels: pl.DataFrame, baseline: str | None = None) -> Slices:
    """Mean of each system on each slice and, if there is a baseline, its difference from that one there.

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
    compared = {system: _compared(parts, system, baseline) for system in systems if baseline and system != baseline}
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


def write_slices(path: Path, values: pl.DataFrame, section: Evaluate, baseline: str, labels: Path) -> dict[str, Sliced]:
    """Write the slices of each split as JSON, by the labels of the judged queries.

    Args:
        values: columns system, split, qid, measure, value.
        labels: folder of tables of labels, and of what they mean.
    """
    (tested,) = parse([section.significance])
    about = read_about(labels)
    found = {
        split: Sliced(
            measure=tested,
            baseline=baseline,
            about=about[split],
            slices=slice_systems(rows, read_labels(labels / f"{split}.parquet"), baseline),
        )
        for (split,), rows in values.filter(measure=tested).group_by("split", maintain_order=True)
    }
    write_json(path, {split: asdict(one) for split, one in found.items()})
    return found
