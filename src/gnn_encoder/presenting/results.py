"""The quality of systems: a table with differences from M_de and from the branches' baselines, and a figure."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gnn_encoder.evaluation.significance import Comparison
from gnn_encoder.pipeline.systems import REFERENCE
from gnn_encoder.presenting.figure import Panel
from gnn_encoder.presenting.formats import NOTHING, comparison, count, points
from gnn_encoder.presenting.looks import look, wrapped
from gnn_encoder.presenting.means import Mean, Means
from gnn_encoder.presenting.names import name_of
from gnn_encoder.presenting.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True)
class Row:
    """A system in a table: its measures, and its comparisons to M_de and to its branch's baseline."""

    system: str
    measures: dict[str, Mean]
    against_reference: Comparison | None
    against_own: Comparison | None


@dataclass(frozen=True, kw_only=True)
class Results:
    """Systems that were compared together on the queries of a split.

    Attributes:
        command: the command that writes the files that these results were read from.
        outdated: whether the queries' values have changed since then.
        sampled: whether only a sample of the split's queries was judged.
    """

    title: str
    split: str
    rows: list[Row]
    command: str = ""
    outdated: bool = False
    sampled: bool = False

    @property
    def queries(self) -> int | None:
        """Number of judged queries; None if the means are known but not the queries' values."""
        return next((mean.queries for row in self.rows for mean in row.measures.values() if mean.queries), None)


def results_table(found: Results, tested: str) -> Table:
    """One row per system. The comparisons are of the measure `tested`; a column without comparisons is left out.

    Where a system's own baseline is M_de, the column of differences from M_de alone has the comparison.
    """
    columns = ["System", *found.rows[0].measures]
    rows = [[name_of(row.system), *map(_mean, row.measures.values())] for row in found.rows]
    reference = [comparison(row.against_reference) for row in found.rows]
    own = [_against_own(row) for row in found.rows]
    for name, cells in ((name_of(REFERENCE), reference), ("its baseline", own)):
        if set(cells) != {NOTHING}:
            columns.append(f"{tested} against {name}")
            rows = [[*row, cell] for row, cell in zip(rows, cells, strict=True)]
    title = f"{found.split.capitalize()} queries: {found.title}, points of 100"
    note = f"{count(found.queries)} queries" if found.queries else ""
    return Table(title=title, columns=columns, rows=rows, note=note)


def systems_panel(means: Means, split: str, measure: str) -> Panel:
    """Each system's mean of `measure` with its 95% interval; systems without it are left out."""
    shown = {system: of[measure] for system, of in means.items() if measure in of}
    title, size = f"{measure}, {split} queries", (5.0, 1 + 0.4 * len(shown))
    paint = partial(paint_systems, means=shown, measure=measure)
    return Panel(name=f"systems-{split}", title=title, paint=paint, size=size)


def paint_systems(axes: "Axes", means: dict[str, Mean], measure: str) -> None:
    """Draw one row per system, the first at the top."""
    for place, (system, mean) in enumerate(means.items()):
        half = None if mean.half is None else 100 * mean.half
        axes.errorbar(100 * mean.mean, place, xerr=half, linestyle="", **look(system))
    axes.set(yticks=range(len(means)), yticklabels=map(wrapped, means))
    axes.set(xlabel=f"{measure} (points)", ylim=(len(means) - 0.4, -0.6))


def _mean(mean: Mean) -> str:
    return points(mean.mean) if mean.half is None else f"{points(mean.mean)}\n±{points(mean.half)}"


def _against_own(row: Row) -> str:
    found = row.against_own
    if found is None or (found.baseline == REFERENCE and row.against_reference):
        return NOTHING
    return f"{comparison(found)} ({name_of(found.baseline)})"
