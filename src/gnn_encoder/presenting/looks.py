"""The look that all pictures share: style, each system's colour and mark, wrapped names, and one legend below."""

import textwrap
from typing import TYPE_CHECKING, Any

from gnn_encoder.pipeline.systems import registry
from gnn_encoder.presenting.names import name_of

if TYPE_CHECKING:
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
# Colours that are visible on white and on black. A system has the same colour and mark in every picture.
COLOURS = "7d8590 b07d2b 2f7fd1 2b9a9a d2492a 8c6bd6 b04fc0 6f9a2e 2e9e5b d6457e a8703f".split()
MARKS = "os^vDPX<>*hpd"  # not as many as colours, so that no two systems share both
OTHER = {"color": "#7d8590", "marker": "o"}
WIDEST = 22  # most characters of a line in a legend or beside an axis


def look(system: str) -> dict[str, Any]:
    """A system's colour and mark, as keyword arguments of matplotlib."""
    systems = list(registry().systems)
    if system not in systems:
        return OTHER
    place = systems.index(system)
    return {"color": f"#{COLOURS[place % len(COLOURS)]}", "marker": MARKS[place % len(MARKS)]}


def wrapped(system: str) -> str:
    """A system's title, broken into lines that fit beside an axis."""
    return textwrap.fill(name_of(system), WIDEST)


def legend_below(figure: "Figure", columns: int = 2) -> None:
    """Add one legend for all axes of a figure, with each label once."""
    named: dict[str, Any] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        named = dict(zip(labels, handles, strict=True)) | named
    if named:
        figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=columns, frameon=False)
