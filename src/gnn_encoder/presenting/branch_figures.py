"""PAIR's figure of similarities (Figure 4), and Dual-Cross-Encoder's table of the number of views (Table 6)."""

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from gnn_encoder.presenting.figures import Panel, system_style, wrapped
from gnn_encoder.presenting.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIMILARITIES = ("s(p+,q)", "s(p+,p-)")
COSTS = ("views", "pool", "index_bytes", "milliseconds", "vectors")  # columns of the curve that are no measures


def similarity_panel(found: dict[str, dict[str, float]]) -> Panel:
    """How close positive passages are to their queries and to hard negatives, of each system."""
    title = "Similarity to queries and to hard negatives"
    return Panel(title=title, paint=partial(paint_similarities, found=found), size=(4.8, 3.4))


def paint_similarities(axes: "Axes", found: dict[str, dict[str, float]]) -> None:
    """Draw a group of bars for each similarity, with one bar per system and its standard deviation.

    Args:
        found: system -> mean of each similarity, by its name, and its standard deviation, by its name and ` std`.
    """
    width = 0.76 / len(found)
    for place, (system, values) in enumerate(found.items()):
        x = [group + width * (place - (len(found) - 1) / 2) for group in range(len(SIMILARITIES))]
        heights, spread = ([values[name + suffix] for name in SIMILARITIES] for suffix in ("", " std"))
        colour = system_style(system)["color"]
        bars = axes.bar(x, heights, 0.95 * width, yerr=spread, color=colour, ecolor="0.5", label=wrapped(system))
        axes.bar_label(bars, fmt="%.3f", label_type="center", color="white")
    axes.set(xticks=range(len(SIMILARITIES)), xticklabels=SIMILARITIES, ylabel="similarity")
    axes.grid(visible=False, axis="x")


def views_table(curve: pl.DataFrame) -> Table:
    """One row per number of views and way to pool them; measures in points. `curve`: what `views_curve` wrote."""
    measures = [name for name in curve.columns if name not in COSTS]
    shown = curve.with_columns(pl.col(measures) * 100)
    rows = [[f"{value:.4g}" if isinstance(value, float) else str(value) for value in row] for row in shown.rows()]
    title = "Views a passage, on the dev queries (Dual-Cross-Encoder, Table 6), points of 100"
    return Table(title=title, columns=[name.replace("_", " ") for name in curve.columns], rows=rows)
