"""A figure's panels, and the PNG that they make side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gnn_encoder.presenting.looks import STYLE, legend_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One picture, for plots/ and for the page.

    Attributes:
        name: unique among the pictures of the page.
        title: heading of the picture in plots/, and its description for screen readers on the page.
        paint: draws the picture on axes.
        size: width and height in inches.
    """

    name: str
    title: str
    paint: "Callable[[Axes], None]"
    size: tuple[float, float]


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
        legend_below(figure, columns=2 * columns)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120, metadata={"Software": None})
