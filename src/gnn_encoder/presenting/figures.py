"""What all figures share: panels that make a PNG, one style, and one colour and mark for each system."""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnn_encoder.pipeline.project import registry, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.15,
    "grid.color": "black",
    "legend.fontsize": 9,
    "lines.linewidth": 1.6,
    "errorbar.capsize": 3,
}
# A system has the same colour and mark in every figure.
COLOURS = "7d8590 b07d2b 2f7fd1 2b9a9a d2492a 8c6bd6 b04fc0 6f9a2e 2e9e5b d6457e a8703f".split()
MARKS = "os^vDPX<>*hpd"  # not as many as colours, so that no two systems share both
OTHER = {"color": "#7d8590", "marker": "o"}
LINE = 22  # most characters of a line in a legend or beside an axis


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One part of a figure, with its own axes.

    Attributes:
        paint: draws it on axes.
        size: width and height in inches.
    """

    title: str
    paint: "Callable[[Axes], None]"
    size: tuple[float, float]


def system_style(system: str) -> dict[str, Any]:
    """A system's colour and mark, as keyword arguments of matplotlib."""
    systems = list(registry().systems)
    if system not in systems:
        return OTHER
    place = systems.index(system)
    return {"color": f"#{COLOURS[place % len(COLOURS)]}", "marker": MARKS[place % len(MARKS)]}


def wrapped(system: str) -> str:
    """A system's title, broken into lines that fit beside an axis."""
    return textwrap.fill(title_of(system), LINE)


def write_png(path: Path, panels: Sequence[Panel], *, columns: int | None = None, shared: bool = False) -> None:
    """Save panels as a PNG; the same drawing gives the same bytes.

    Args:
        columns: panels side by side; None: all of them.
        shared: whether the panels of a row share their y-axis.
    """
    # Drawn without pyplot: no window system, no global state, no font cache of interactive backends.
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = columns or len(panels) or 1
    rows = -(-len(panels) // columns) or 1
    width, height = (max((panel.size[side] for panel in panels), default=1) for side in (0, 1))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
        FigureCanvasAgg(figure)
        grid = list(figure.subplots(rows, columns, squeeze=False, sharey="row" if shared else False).flat)
        for axes in grid[len(panels) :]:
            axes.remove()
        for axes, panel in zip(grid, panels, strict=False):
            panel.paint(axes)
            axes.set_title(panel.title, wrap=True)
        _add_legend_below(figure, columns=2 * columns)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120, metadata={"Software": None})


def _add_legend_below(figure: "Figure", columns: int) -> None:
    """One legend for all axes of a figure, with each label once."""
    named: dict[str, Any] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        named = dict(zip(labels, handles, strict=True)) | named
    if named:
        figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=columns, frameon=False)
