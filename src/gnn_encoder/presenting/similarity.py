"""How close positive passages are to their queries and to hard negatives (PAIR, Figure 4)."""

from functools import partial
from typing import TYPE_CHECKING

from gnn_encoder.presenting.figure import Panel
from gnn_encoder.presenting.looks import look, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE = "Mean similarities of the dev queries' positives, with standard deviations (PAIR, Figure 4)"
NAMES = ("s(p+,q)", "s(p+,p-)")


def similarity_panel(found: dict[str, dict[str, float]]) -> Panel:
    """Both similarities of each system."""
    title = "Similarity to queries and to hard negatives"
    return Panel(name="similarity", title=title, paint=partial(paint_similarities, found=found), size=(4.8, 3.4))


def paint_similarities(axes: "Axes", found: dict[str, dict[str, float]]) -> None:
    """Draw a group of bars for each similarity in NAMES, with one bar per system and its standard deviation.

    Args:
        found: system -> mean of each similarity, by its name, and its standard deviation, by its name and ` std`.
    """
    width = 0.76 / len(found)
    for place, (system, values) in enumerate(found.items()):
        x = [group + width * (place - (len(found) - 1) / 2) for group in range(len(NAMES))]
        heights, spread = ([values[name + suffix] for name in NAMES] for suffix in ("", " std"))
        colour = look(system)["color"]
        bars = axes.bar(x, heights, 0.95 * width, yerr=spread, color=colour, ecolor="0.5", label=wrapped(system))
        axes.bar_label(bars, fmt="%.3f", label_type="center", color="white")
    axes.set(xticks=range(len(NAMES)), xticklabels=NAMES, ylabel="similarity")
    axes.grid(visible=False, axis="x")
