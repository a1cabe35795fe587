"""Quality, size and latency against the views that a passage has (Dual-Cross-Encoder, Table 6)."""

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from gnn_encoder.presenting.blocks import blocks
from gnn_encoder.presenting.figure import panels
from gnn_encoder.presenting.looks import look
from gnn_encoder.presenting.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE = "Views a passage, on the dev questions (Dual-Cross-Encoder, Table 6)"
COSTS = ("views", "index_bytes", "milliseconds", "vectors")  # columns; the others are measures
QUALITY, SIZE, LATENCY = "quality", "size", "latency"
PANELS = (QUALITY, SIZE, LATENCY)


def views_table(curve: pl.DataFrame) -> Table:
    """A row a number of views; measures in points."""
    measures = [name for name in curve.columns if name not in COSTS]
    (table,) = blocks(curve.with_columns(pl.col(measures) * 100).to_dicts(), f"{TITLE}, points of 100")
    return table


def paint_views(axes: "Axes", curve: pl.DataFrame, measure: str, panel: str) -> None:
    """One of the `PANELS`. `curve`: columns views, `measure`, index_bytes, milliseconds."""
    values, label = {
        QUALITY: (100 * curve[measure], f"{measure} (points)"),
        SIZE: (curve["index_bytes"] / 1024, "index (KiB a passage)"),
        LATENCY: (curve["milliseconds"], "search (ms a question)"),
    }[panel]
    axes.plot(curve["views"], values, **look("dual_cross"))
    axes.set(xlabel="views a passage", ylabel=label, xticks=curve["views"].to_list())
    if panel != QUALITY:
        axes.set_ylim(bottom=0)


def draw_views(path: Path, curve: pl.DataFrame, measure: str) -> None:
    """The panels side by side."""
    with panels(path, len(PANELS), size=(4.4, 3.6)) as every:
        for axes, panel in zip(every, PANELS, strict=True):
            paint_views(axes, curve, measure, panel)
