"""PAIR's figure of similarities (Figure 4), and Dual-Cross-Encoder's of the number of views (Table 6)."""

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from gnn_encoder.presenting.figures import Panel, system_style, wrapped
from gnn_encoder.presenting.tables import Table, tables_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIMILARITIES = ("s(p+,q)", "s(p+,p-)")
COSTS = ("views", "pool", "index_bytes", "milliseconds", "vectors")  # columns of the curve that are no measures
LINES = ("-", "--", ":")  # one for each way to pool


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
    """One row per number of views and way to pool them; measures in points."""
    measures = [name for name in curve.columns if name not in COSTS]
    title = "Views a passage, on the dev queries (Dual-Cross-Encoder, Table 6), points of 100"
    (table,) = tables_of(curve.with_columns(pl.col(measures) * 100).to_dicts(), title)
    return table


def views_panels(curve: pl.DataFrame, measure: str) -> list[Panel]:
    """Three panels: quality, size and latency. `curve`: columns views, pool, `measure`, index_bytes, milliseconds."""
    drawn = {
        "quality": (100 * curve[measure], f"{measure} (points)"),
        "size": (curve["index_bytes"] / 1024, "index (KiB a passage)"),
        "latency": (curve["milliseconds"], "search (ms a query)"),
    }
    return [
        Panel(
            title=f"{name.capitalize()} against views",
            paint=partial(paint_views, curve=curve.select("views", "pool", values=values), label=label),
            size=(3.6, 2.8),
        )
        for name, (values, label) in drawn.items()
    ]


def paint_views(axes: "Axes", curve: pl.DataFrame, label: str) -> None:
    """Draw a line for each way to pool, all from one view on. The y-axis of sizes and times begins at 0.

    Args:
        curve: columns views, pool, values.
    """
    pools = curve["pool"].unique(maintain_order=True).to_list()
    for pool, line in zip(pools, LINES, strict=False):
        drawn = curve.filter((pl.col("pool") == pool) | (pl.col("views") == 1))
        axes.plot(drawn["views"], drawn["values"], **system_style("dual_cross"), linestyle=line, label=pool)
    axes.set(xlabel="views a passage", ylabel=label, xticks=curve["views"].unique().sort().to_list())
    if len(pools) > 1:
        axes.legend()
    if "points" not in label:
        axes.set_ylim(bottom=0)
