"""Systems on slices of the queries: a table, and a figure of a system's differences from its baseline."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gnn_encoder.evaluation.labels import CUT, LABELLED, SIMILARITY, About
from gnn_encoder.evaluation.significance import Comparison
from gnn_encoder.evaluation.similarity import THIRDS
from gnn_encoder.evaluation.slices import Slice, Sliced, Slices
from gnn_encoder.presenting.figure import Panel
from gnn_encoder.presenting.formats import BETTER, NOTHING, WORSE, comparison, count, points
from gnn_encoder.presenting.looks import look
from gnn_encoder.presenting.names import name_of
from gnn_encoder.presenting.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMES = {
    SIMILARITY: "nearest training query",
    LABELLED: "a relevant passage is labelled in training",
    CUT: "a relevant passage is cut",
}
WIDEST = 32  # most characters of a line beside the figure


def slices_table(
    slices: Slices, systems: Sequence[str], *, title: str, note: str = "", about: About | None = None
) -> Table:
    """One row per slice: its queries, and each system's mean with, below it, the comparison with the baseline.

    Args:
        about: what the pipeline's own labels mean; None for anybody's labels, which are shown as they are.
    """
    rows = [[name, count(of.queries), *(_cell(of, system) for system in systems)] for name, of in _named(slices, about)]
    return Table(title=title, columns=["Slice", "queries", *map(name_of, systems)], rows=rows, note=note)


def split_table(branch: str, found: Sliced, split: str, systems: Sequence[str] | None = None) -> Table:
    """The slices of a split's queries.

    Args:
        systems: those of the branch's table to show; None: all of them, the baseline first.
    """
    every = dict.fromkeys(system for labels in found.slices.values() for of in labels.values() for system in of.means)
    others = [system for system in every if system != found.baseline]
    baseline = name_of(found.baseline)
    note = (
        f"Differences are from {baseline}; p is after Holm's correction for all slices of a system. Similarity to the "
        f"nearest training query is by M_de. A passage is cut if it has more than {found.about.passage_length} tokens."
    )
    if found.about.left_out:
        note += " Answers judge these queries: their relevant passages, labelled or cut, are not known."
    title = f"{split.capitalize()} queries: {name_of(branch)} by slices, {found.measure}, points of 100"
    shown = systems or [found.baseline, *others]
    return slices_table(found.slices, shown, title=title, note=note, about=found.about)


def slices_panel(found: Sliced, split: str, system: str) -> Panel:
    """A system minus the baseline on each slice, with 95% intervals; slices of a single query are left out."""
    against = {
        textwrap.fill(name, WIDEST): of.against[system]
        for name, of in _named(found.slices, found.about)
        if system in of.against and of.queries > 1
    }
    title = f"{name_of(system)} minus {name_of(found.baseline)}, {split} queries"
    paint = partial(paint_slices, against=against, system=system, measure=found.measure)
    return Panel(name=f"slices-{split}", title=title, paint=paint, size=(6.0, 1 + 0.45 * len(against)))


def paint_slices(axes: "Axes", against: Mapping[str, Comparison], system: str, measure: str) -> None:
    """Draw one row per slice, the first at the top, and a line at 0."""
    for place, found in enumerate(against.values()):
        middle, ends = 100 * found.difference, (100 * found.low, 100 * found.high)
        axes.errorbar(middle, place, xerr=[[middle - ends[0]], [ends[1] - middle]], linestyle="", **look(system))
    axes.axvline(0, color="0.5", linewidth=1)
    axes.set(yticks=range(len(against)), yticklabels=against, ylim=(len(against) - 0.4, -0.6))
    axes.set(xlabel=f"difference in {measure} (points)")


def _named(slices: Slices, about: About | None) -> Iterator[tuple[str, Slice]]:
    for name, labels in slices.items():
        for label, of in labels.items():
            bounds = _bounds(about)[label] if about and name == SIMILARITY else ""
            yield f"{NAMES[name] if about else name}: {label}{bounds}", of


def _bounds(about: About) -> dict[str, str]:
    middle, upper = about.thirds
    texts = (f" (below {middle:.3f})", f" ({middle:.3f} to {upper:.3f})", f" (from {upper:.3f})")
    return dict(zip(THIRDS, texts, strict=True))


def _cell(of: Slice, system: str) -> str:
    if system not in of.means:
        return NOTHING
    if system not in of.against:
        return points(of.means[system])
    mark, text = "", comparison(of.against[system])
    if text.startswith((BETTER, WORSE)):  # it stands first, where the page looks for it
        mark, text = text[:2], text[2:]
    return f"{mark}{points(of.means[system])}\n{text}"
