"""The learning curves of all models as one PNG, for those without a browser."""

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 4
PANEL = (3.6, 2.6)  # inches


def write_training_picture(path: Path, histories: dict[str, Path]) -> None:
    """A panel a model: loss of every step, and where dev questions were watched, their RR@10 (right axis).

    Args:
        histories: name of a model -> its learning curve, as `write_history` writes it.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = max(1, -(-len(histories) // COLUMNS))
    figure = Figure(figsize=(PANEL[0] * COLUMNS, PANEL[1] * rows), layout="constrained")
    FigureCanvasAgg(figure)
    panels = list(figure.subplots(rows, COLUMNS, squeeze=False).flat)
    for (name, history), axes in zip(histories.items(), panels, strict=False):
        _panel(axes, name, pl.read_csv(history))
    for axes in panels[len(histories) :]:
        axes.remove()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _panel(axes: "Axes", name: str, history: pl.DataFrame) -> None:
    losses, watched = history.drop_nulls("loss"), history.drop_nulls("dev_rr10")
    axes.plot(losses["step"], losses["loss"], linewidth=1)
    axes.set(title=name, xlabel="step", ylabel="loss (nats a question)")
    axes.grid(alpha=0.3)
    if len(watched):
        right = axes.twinx()
        right.plot(watched["step"], 100 * watched["dev_rr10"], "o-", color="tab:orange", linewidth=1, markersize=3)
        right.set_ylabel("dev RR@10 (points)", color="tab:orange")
