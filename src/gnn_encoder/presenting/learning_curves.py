"""The figure of all models' learning curves."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from gnn_encoder.presenting.figures import Panel, write_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 4
WATCHED = "#d2492a"
FEW = 50  # curves with fewer points have a mark at each


def read_history(path: Path) -> pl.DataFrame:
    """A file that `write_history` wrote: columns phase, step, loss, dev_rr10; a row has a loss, a dev_rr10 or both."""
    return pl.read_csv(path, schema_overrides={"loss": pl.Float64, "dev_rr10": pl.Float64})  # a column may be empty


def draw_training(path: Path, models: dict[str, Path]) -> None:
    """Write a figure with one panel per model. `models`: name -> file of its learning curve."""
    panels = [
        Panel(title=name, paint=partial(paint_training, history=read_history(file)), size=(3.8, 2.8))
        for name, file in models.items()
    ]
    write_png(path, panels, columns=min(COLUMNS, len(models)))


def paint_training(axes: "Axes", history: pl.DataFrame) -> None:
    """Draw the loss of every optimiser step, in one colour per phase, and RR@10 of the dev sample on a second axis.

    A star marks the weights that were kept.
    """
    losses, watched = (history.drop_nulls(name).drop_nans(name) for name in ("loss", "dev_rr10"))
    phases = losses["phase"].unique(maintain_order=True).to_list()
    for phase in phases:
        part, label = losses.filter(phase=phase), f"loss, {phase}" if len(phases) > 1 else None  # one needs no legend
        axes.plot(part["step"], part["loss"], linewidth=1.2, marker="." if len(part) < FEW else "", label=label)
    axes.set(xlabel="step", ylabel="loss (nats a query)")
    if len(watched):
        right = axes.twinx()
        right.plot(watched["step"], 100 * watched["dev_rr10"], "o-", color=WATCHED, markersize=4)
        last = watched.filter(phase=watched["phase"][-1])
        step, score = last.select("step", "dev_rr10").row(last["dev_rr10"].arg_max() or 0)  # the first of the best
        right.plot([step], [100 * score], "*", color=WATCHED, markersize=12)
        right.set_ylabel("dev RR@10 (points)", color=WATCHED)
        right.grid(visible=False)
