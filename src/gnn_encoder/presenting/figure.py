"""Panels that are saved as one PNG."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gnn_encoder.presenting.looks import STYLE, legend_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@contextmanager
def panels(
    path: Path, count: int, *, columns: int | None = None, size: tuple[float, float] = (5.5, 4.2), shared: bool = False
) -> "Iterator[list[Axes]]":
    """Give axes to draw on, row by row, and save them as a PNG; the same drawing gives the same bytes.

    Args:
        columns: panels side by side; all of them unless told.
        size: inches of a panel.
        shared: panels of a row have one y-axis.
    """
    # Drawn without pyplot: no window system, no global state, no font cache of interactive backends.
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = columns or max(1, count)
    rows = max(1, -(-count // columns))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
        FigureCanvasAgg(figure)
        grid = list(figure.subplots(rows, columns, squeeze=False, sharey="row" if shared else False).flat)
        for axes in grid[count:]:
            axes.remove()
        yield grid[:count]
        legend_below(figure, columns=2 * columns)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120, metadata={"Software": None})
