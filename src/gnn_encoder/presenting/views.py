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
COSTS = ("views", "index_bytes", "milliseconds", "vectors")  # columns; the others are measures


def views_table(curve: pl.DataFrame) -> Table:
    """One row per number of views; measures in points."""
    measures = [name for name in curve.columns if name not in COSTS]
    (table,) = blocks(curve.with_columns(pl.col(measures) * 100).to_dicts(), f"{TITLE}, points of 100")
    return table


def views_panels(curve: pl.DataFrame, measure: str) -> list[Panel]:
    """Three panels: quality, size and latency. `curve`: columns views, `measure`, index_bytes, milliseconds."""
    drawn = {
        "quality": (100 * curve[measure], f"{measure} (points)"),
        "size": (curve["index_bytes"] / 1024, "index (KiB a passage)"),
        "latency": (curve["milliseconds"], "search (ms a query)"),
    }
    return [
        Panel(
            name=f"views-{name}",
            title=f"{name.capitalize()} against views",
            paint=partial(paint_views, views=curve["views"], values=values, label=label),
            size=(3.6, 2.8),
        )
        for name, (values, label) in drawn.items()
    ]


def paint_views(axes: "Axes", views: pl.Series, values: pl.Series, label: str) -> None:
    """Draw one point per number of views. The y-axis of sizes and times begins at 0, that of measures does not."""
    axes.plot(views, values, **look("dual_cross"))
    axes.set(xlabel="views a passage", ylabel=label, xticks=views.to_list())
    if "points" not in label:
        axes.set_ylim(bottom=0)
