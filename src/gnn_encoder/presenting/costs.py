"""The costs of dense systems: a table, and figures of quality against the index's size and against latency."""

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from gnn_encoder.evaluation.cost_record import Costs
from gnn_encoder.presenting.figure import Panel
from gnn_encoder.presenting.formats import NOTHING
from gnn_encoder.presenting.looks import look, wrapped
from gnn_encoder.presenting.means import Mean, Means
from gnn_encoder.presenting.names import name_of
from gnn_encoder.presenting.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE, LATENCY = "index (bytes a passage)", "encode and search (ms a query)"
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


def cost_panels(means: Means, costs: dict[str, Costs], measure: str) -> list[Panel]:
    """Two panels: the mean of `measure` with its 95% interval against the index's size, and against latency."""
    shown = {system: means[system][measure] for system in costs if measure in means.get(system, {})}
    paint = partial(paint_costs, means=shown, costs=costs, measure=measure)
    return [
        Panel(name=name, title=f"{measure} against {label}", paint=partial(paint, label=label), size=(5.0, 5.2))
        for name, label in (("cost-size", SIZE), ("cost-latency", LATENCY))
    ]


def paint_costs(axes: "Axes", means: dict[str, Mean], costs: dict[str, Costs], measure: str, label: str) -> None:
    """Draw one mark per system. `label`: SIZE or LATENCY, the cost on the x-axis."""
    of = {system: costs[system].bytes_a_passage if label == SIZE else costs[system].latency_ms for system in means}
    positions = _side_by_side(list(of.values()))
    for (system, mean), x in zip(means.items(), positions, strict=True):
        half = None if mean.half is None else 100 * mean.half
        axes.errorbar(x, 100 * mean.mean, yerr=half, linestyle="", label=wrapped(system), **look(system))
    axes.set(xlabel=label, ylabel=f"{measure} (points)")
    axes.set_xlim(0, 1.06 * max(positions))  # a margin, since a mark on the edge would be cut in half


def _row(system: str, cost: Costs) -> list[str]:
    seconds = NOTHING if cost.training_seconds is None else f"{cost.training_seconds:.0f}"
    second = f"{cost.lookup_ms:.2f}" if cost.lookup_ms else NOTHING
    numbers = [f"{cost.bytes_a_passage:.0f}", f"{cost.encode_ms:.2f}", f"{cost.search_ms:.2f}", second, seconds]
    return [name_of(system), f"{cost.vectors_a_passage:g}", *numbers]


def _side_by_side(values: list[float]) -> list[float]:
    """The values, with equal ones shifted apart a little, so that their marks do not hide one another."""
    step, counts, places = 0.015 * max(values), Counter(values), Counter[float]()
    shifted = []
    for value in values:
        shifted.append(value + step * (places[value] - (counts[value] - 1) / 2))
        places[value] += 1
    return shifted
