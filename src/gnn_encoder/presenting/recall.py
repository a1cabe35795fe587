"""Recall R@k against its depth k, as CSV and as a figure."""

import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from gnn_encoder.evaluation.values import Means
from gnn_encoder.presenting.figure import Panel
from gnn_encoder.presenting.looks import look, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RECALL = re.compile(r"^(R|Success)@(\d+)$")


def recalls(names: Iterable[str]) -> list[tuple[str, int]]:
    """(`R`, k) for every R@k among the measures, smallest k first; (`Success`, k) if there is no R@k."""
    found = [(match.group(1), int(match.group(2))) for match in map(RECALL.match, names) if match]
    return sorted([one for one in found if one[0] == "R"] or found)


def write_recall_csv(path: Path, means: dict[str, Means]) -> None:
    """Write one row per system, split and k of recall R@k, or of Success@k if a split has no R@k."""
    rows = [
        (system, split, name, depth, values[f"{name}@{depth}"])
        for split, systems in means.items()
        for system, values in systems.items()
        for name, depth in recalls(values)
    ]
    schema = {"system": pl.String, "split": pl.String, "measure": pl.String, "k": pl.Int64, "recall": pl.Float64}
    pl.DataFrame(rows, schema=schema, orient="row").write_csv(path)


def recall_panel(means: Means, split: str) -> Panel:
    """R@k (or Success@k) against k, of one split."""
    title = f"Recall, {split} queries"
    return Panel(name=f"recall-{split}", title=title, paint=partial(paint_recall, means=means), size=(5.0, 5.2))


def paint_recall(axes: "Axes", means: Means) -> None:
    """Draw one line per system."""
    name = next((name for values in means.values() for name, _ in recalls(values)), "R")
    depths: set[int] = set()
    for system, values in means.items():
        found = [depth for _, depth in recalls(values)]
        points = [100 * values[f"{name}@{depth}"] for depth in found]
        axes.plot(found, points, markersize=4, label=wrapped(system), **look(system))
        depths.update(found)
    axes.set(xlabel="k", ylabel=f"{name}@k (points)", xscale="log")
    axes.set_xticks(sorted(depths), [str(depth) for depth in sorted(depths)])
    axes.minorticks_off()
