"""Learning curves: of one model on axes, of all models as one PNG."""

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from gnn_encoder.core import project
from gnn_encoder.presenting.figure import panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 4
PANEL = (3.6, 2.8)  # inches
WATCHED = "#d2492a"
FEW = 50  # points that are seen one by one


def histories() -> dict[str, Path]:
    """Learning curves that are there, by the model's folder below data/."""
    paths = sorted([*project.DATA.glob("*/history.csv"), *project.DATA.glob("*/*/history.csv")])
    return {path.parent.relative_to(project.DATA).as_posix(): path for path in paths}


def paint_training(axes: "Axes", history: pl.DataFrame) -> None:
    """Loss of every optimiser step, a colour a phase; RR@10 of the watched dev queries on the right.

    Args:
        history: columns phase, step, loss, dev_rr10; a row has one value or both.
    """
    losses, watched = (history.drop_nulls(name).drop_nans(name) for name in ("loss", "dev_rr10"))
    for (phase,), part in losses.group_by("phase", maintain_order=True):
        marker = "." if len(part) < FEW else ""
        axes.plot(part["step"], part["loss"], linewidth=1.2, marker=marker, label=f"loss, {phase}")
    axes.set(xlabel="step", ylabel="loss (nats a question)")
    if len(losses):
        axes.legend(frameon=False, fontsize="small")
    if len(watched):
        right = axes.twinx()
        right.plot(watched["step"], 100 * watched["dev_rr10"], "o-", color=WATCHED, markersize=4)
        right.set_ylabel("dev RR@10 (points)", color=WATCHED)
        right.grid(visible=False)


def draw_training(path: Path, models: dict[str, Path]) -> None:
    """A panel a model. `models`: name -> its learning curve, as `write_history` writes it."""
    with panels(path, len(models), columns=COLUMNS, size=PANEL) as every:
        for axes, (name, history) in zip(every, models.items(), strict=True):
            paint_training(axes, pl.read_csv(history))
            axes.set_title(name)
