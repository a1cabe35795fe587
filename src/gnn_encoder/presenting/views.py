"""Quality, index size and latency against the number of views per passage (Dual-Cross-Encoder, Table 6)."""

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from gnn_encoder.presenting.blocks import blocks
from gnn_encoder.presenting.figure import Panel
from gnn_encoder.presenting.looks import look
from gnn_encoder.presenting.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE = "Views a passage, on the dev queries (Dual-Cross-Encoder, Table 6)"
COSTS = ("views", "pool", "index_bytes", "milliseconds", "vectors")  # columns; the others are measures

LINES = ("-", "--", ":")  # one for each way to pool


def views_table(curve: pl.DataFrame) -> Table:
    """One row per number of views and way to pool them; measures in points."""
    measures = [name for name in curve.columns if name not in COSTS]
    (table,) = blocks(curve.with_columns(pl.col(measures) * 100).to_dicts(), f"{TITLE}, points of 100")
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
            name=f"views-{name}",
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
        axes.plot(drawn["views"], drawn["values"], **look("dual_cross"), linestyle=line, label=pool)
    axes.set(xlabel="views a passage", ylabel=label, xticks=curve["views"].unique().sort().to_list())
    if len(pools) > 1:
        axes.legend()
    if "points" not in label:
        axes.set_ylim(bottom=0)
