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
STEP = 0.015  # between marks of equal cost, as a share of the axis
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
    values = list(of.values())
    positions = _side_by_side(values)
    for value, count in Counter(values).items():
        if count > 1:
            _band(
                axes, value, [x for x, own in zip(positions, values, strict=True) if own == value], STEP * max(values)
            )
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


def _band(axes: "Axes", value: float, positions: list[float], margin: float) -> None:
    """A band that holds the marks of systems of equal cost together, with that cost at its top."""
    low, high = min(positions) - margin, max(positions) + margin
    axes.axvspan(low, high, color="grey", alpha=0.12, linewidth=0, zorder=0)
    at = axes.get_xaxis_transform()
    axes.text(value, 0.99, f"all {value:g}", transform=at, ha="center", va="top", color="dimgrey", fontsize="small")


def _side_by_side(values: list[float]) -> list[float]:
    """The values, with equal ones shifted apart a little, so that their marks do not hide one another."""
    step, counts, places = STEP * max(values), Counter(values), Counter[float]()
    shifted = []
    for value in values:
        shifted.append(value + step * (places[value] - (counts[value] - 1) / 2))
        places[value] += 1
    return shifted
