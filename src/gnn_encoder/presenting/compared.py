"""What stage `compare` shows: costs and quality against latency, PAIR's Figure 4, Dual-Cross-Encoder's Table 6."""

from typing import TYPE_CHECKING

import polars as pl

from gnn_encoder.evaluation.costs import Costs
from gnn_encoder.pipeline.project import title_of
from gnn_encoder.presenting.figures import Panel, system_style, wrapped
from gnn_encoder.presenting.formats import NOTHING
from gnn_encoder.presenting.quality import Mean
from gnn_encoder.presenting.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LATENCY = "encode and search (ms a query)"
NOTE = (
    "One query at a time, medians; training is all stages on the way to the encoder, "
    f"{NOTHING} where one of them was interrupted"
)
SIMILARITIES = ("s(p+,q)", "s(p+,p-)")


def costs_table(costs: dict[str, Costs]) -> Table:
    """One row per system."""
    times = ["encode, ms", "search, ms", "second look-up, ms", "training, s"]
    rows = [_row(*one) for one in costs.items()]
    return Table(
        title="Costs", columns=["System", "vectors a passage", "bytes a passage", *times], rows=rows, note=NOTE
    )


def latency_panel(means: dict[str, Mean], costs: dict[str, Costs], measure: str) -> Panel:
    """The mean of `measure` with its 95% interval against latency, one mark per system."""

    def paint(axes: "Axes") -> None:
        for system, cost in costs.items():
            if mean := means.get(system):
                mark = {"linestyle": "", "label": wrapped(system), **system_style(system)}
                axes.errorbar(cost.latency_ms, 100 * mean.mean, yerr=100 * mean.half, **mark)
        axes.set(xlabel=LATENCY, ylabel=f"{measure} (points)")
        axes.set_xlim(0, 1.06 * axes.dataLim.x1)  # a margin, since a mark on the edge would be cut in half

    return Panel(title=f"{measure} against {LATENCY}", paint=paint, size=(6.0, 5.2))


def _row(system: str, cost: Costs) -> list[str]:
    seconds = NOTHING if cost.training_seconds is None else f"{cost.training_seconds:.0f}"
    second = f"{cost.lookup_ms:.2f}" if cost.lookup_ms else NOTHING
    numbers = [f"{cost.bytes_a_passage:.0f}", f"{cost.encode_ms:.2f}", f"{cost.search_ms:.2f}", second, seconds]
    return [title_of(system), f"{cost.vectors_a_passage:g}", *numbers]


def similarity_panel(found: dict[str, dict[str, float]]) -> Panel:
    """How close positive passages are to their queries and to hard negatives: a bar for each, with one per system.

    Args:
        found: system -> mean of each similarity, by its name, and its standard deviation, by its name and ` std`.
    """

    def paint(axes: "Axes") -> None:
        width = 0.76 / len(found)
        for place, (system, values) in enumerate(found.items()):
            x = [group + width * (place - (len(found) - 1) / 2) for group in range(len(SIMILARITIES))]
            heights, spread = ([values[name + suffix] for name in SIMILARITIES] for suffix in ("", " std"))
            colour = system_style(system)["color"]
            bars = axes.bar(x, heights, 0.95 * width, yerr=spread, color=colour, ecolor="0.5", label=wrapped(system))
            axes.bar_label(bars, fmt="%.3f", label_type="center", color="white")
        axes.set(xticks=range(len(SIMILARITIES)), xticklabels=SIMILARITIES, ylabel="similarity")
        axes.grid(visible=False, axis="x")

    return Panel(title="Similarity to queries and to hard negatives", paint=paint, size=(4.8, 3.4))


def views_table(curve: pl.DataFrame) -> Table:
    """One row per number of views and way to pool them; measures in points. `curve`: what `views_curve` wrote."""
    title = "Views a passage, on the dev queries (Dual-Cross-Encoder, Table 6), points of 100"
    return Table(title=title, columns=curve.columns, rows=_points(curve), note=_correlation(curve))


def diversity_table(levels: pl.DataFrame) -> Table:
    """One row per level of self-BLEU that has pairs; measures in points. `levels`: what `by_diversity` found."""
    title = "Dev pairs by self-BLEU of the passage's generated queries (Dual-Cross-Encoder, Figure 4), points of 100"
    return Table(title=title, columns=[name.replace("_", " ") for name in levels.columns], rows=_points(levels))


def _points(table: pl.DataFrame) -> list[list[str]]:
    """Cells of the rows: fractions in points, numbers of things and names as they are."""
    cells = table.with_columns(pl.col(pl.Float64) * 100).rows()
    return [[f"{cell:.4g}" if isinstance(cell, float) else str(cell or NOTHING) for cell in row] for row in cells]


def _correlation(curve: pl.DataFrame) -> str:
    """Pearson's, of ROUGE-L and the first measure, over three numbers of views or more (Figure 3)."""
    rises = curve.drop_nulls("ROUGE-L").unique("views", keep="first", maintain_order=True)  # one view, then pool max
    measure = curve.columns[curve.columns.index("ROUGE-L") + 1]
    found = rises.select(pl.corr("ROUGE-L", measure)).item() if len(rises) > 2 else None
    return f"Pearson's correlation of ROUGE-L and {measure} by the best view: {found:.4f}" if found is not None else ""
