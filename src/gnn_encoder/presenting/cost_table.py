"""The costs of dense systems: a table, and the figure of quality against latency."""

from functools import partial
from typing import TYPE_CHECKING

from gnn_encoder.evaluation.costs import Costs
from gnn_encoder.pipeline.systems import title_of
from gnn_encoder.presenting.figures import Panel, system_style, wrapped
from gnn_encoder.presenting.formats import NOTHING
from gnn_encoder.presenting.quality import Mean, Measured
from gnn_encoder.presenting.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LATENCY = "encode and search (ms a query)"
SECOND = "second look-up, ms"
NOTE = (
    "One query at a time, medians; training is all stages on the way to the encoder, "
    f"{NOTHING} where one of them was interrupted"
)


def costs_table(costs: dict[str, Costs]) -> Table:
    """One row per system. The column of second look-ups is left out where no system needs one."""
    columns = ["System", "vectors a passage", "bytes a passage", "encode, ms", "search, ms", SECOND, "training, s"]
    rows = [_row(*one) for one in costs.items()]
    if not any(cost.lookup_ms for cost in costs.values()):
        place = columns.index(SECOND)
        columns, *rows = ([*row[:place], *row[place + 1 :]] for row in [columns, *rows])
    return Table(title="Costs", columns=columns, rows=rows, note=NOTE)


def latency_panel(means: Measured, costs: dict[str, Costs], measure: str) -> Panel:
    """The mean of `measure` with its 95% interval against latency."""
    shown = {system: means[system][measure] for system in costs if measure in means.get(system, {})}
    paint = partial(paint_latency, means=shown, costs=costs, measure=measure)
    return Panel(title=f"{measure} against {LATENCY}", paint=paint, size=(6.0, 5.2))


def paint_latency(axes: "Axes", means: dict[str, Mean], costs: dict[str, Costs], measure: str) -> None:
    """Draw one mark per system."""
    for system, mean in means.items():
        half = None if mean.half is None else 100 * mean.half
        x, style = costs[system].latency_ms, system_style(system)
        axes.errorbar(x, 100 * mean.mean, yerr=half, linestyle="", label=wrapped(system), **style)
    axes.set(xlabel=LATENCY, ylabel=f"{measure} (points)")
    axes.set_xlim(0, 1.06 * axes.dataLim.x1)  # a margin, since a mark on the edge would be cut in half


def _row(system: str, cost: Costs) -> list[str]:
    seconds = NOTHING if cost.training_seconds is None else f"{cost.training_seconds:.0f}"
    second = f"{cost.lookup_ms:.2f}" if cost.lookup_ms else NOTHING
    numbers = [f"{cost.bytes_a_passage:.0f}", f"{cost.encode_ms:.2f}", f"{cost.search_ms:.2f}", second, seconds]
    return [title_of(system), f"{cost.vectors_a_passage:g}", *numbers]
