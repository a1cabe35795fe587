"""Panels that are saved as one PNG."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class figure:  # noqa: N801  # used like a function
    """Panels, saved as a PNG at the end; the same figure gives the same bytes.

    Args:
        panels: side by side.
        rows: of so many panels each, given row by row.
        size: inches of a panel.
        shared: panels of a row have one y-axis.
    """

    def __init__(
        self, path: Path, panels: int, *, rows: int = 1, size: tuple[float, float] = (5.5, 4.2), shared: bool = False
    ) -> None:
        # Drawn without pyplot: no window system, no global state, no font cache of interactive backends.
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self._path = path
        self._figure = Figure(figsize=(size[0] * panels, size[1] * rows), layout="constrained")
        FigureCanvasAgg(self._figure)
        grid = self._figure.subplots(rows, panels, squeeze=False, sharey="row" if shared else False)
        self._panels: list[Axes] = list(grid.reshape(-1))

    def __enter__(self) -> "list[Axes]":
        return self._panels

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._figure.savefig(self._path, dpi=120, metadata={"Software": None})
