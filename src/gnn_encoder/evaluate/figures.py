"""The figures of a branch, means and recall of its systems, as PNG and as CSV for `dvc plots`."""

import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from gnn_encoder.evaluate.measures import Means
from gnn_encoder.evaluate.significance import interval
from gnn_encoder.pipeline.project import registry, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RECALL = r"^(R|Success)@(\d+)$"
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
# A system has the same colour and mark in every figure.
COLOURS = "7d8590 b07d2b 2f7fd1 2b9a9a d2492a 8c6bd6 b04fc0 6f9a2e 2e9e5b d6457e a8703f".split()
MARKS = "os^vDPX<>*hpd"  # not as many as colours, so that no two systems share both
LINE = 22  # most characters of a line in a legend or beside an axis


def write_figures(folder: Path, values: pl.DataFrame, means: dict[str, Means], measure: str) -> None:
    """Write measures and recall as CSV, and the figures of means and of recall, a panel per split.

    Args:
        values: columns system, split, qid, measure, value.
        means: split -> system -> measure -> mean in 0..1.
        measure: that of the figure of means.
    """
    folder.mkdir(parents=True, exist_ok=True)
    measures_of(means).write_csv(folder / "measures.csv")
    recall = recall_of(means)
    recall.write_csv(folder / "recall.csv")
    tested = values.filter(measure=measure)
    bars = [(f"{measure}, {split} queries", partial(_paint_means, tested.filter(split=split))) for split in means]
    lines = [(f"Recall, {split} queries", partial(_paint_recall, recall.filter(split=split))) for split in means]
    systems = max(map(len, means.values()))
    write_png(folder / "systems.png", bars, width=5.0, height=1 + 0.4 * systems)
    write_png(folder / "recall.png", lines, width=5.0, height=5.2)


def measures_of(means: dict[str, Means]) -> pl.DataFrame:
    """One row per system, split and measure: columns system, split, measure, value."""
    rows = [
        (system, split, measure, value)
        for split, systems in means.items()
        for system, values in systems.items()
        for measure, value in values.items()
    ]
    return pl.DataFrame(rows, schema=["system", "split", "measure", "value"], orient="row")


def recall_of(means: dict[str, Means]) -> pl.DataFrame:
    """One row per system, split and k of recall R@k, or of Success@k if there is no R@k, smallest k first."""
    rows = measures_of(means).with_columns(pl.col("measure").str.extract_groups(RECALL).alias("found"))
    rows = rows.with_columns(measure=pl.col("found").struct[0], k=pl.col("found").struct[1].cast(pl.Int64))
    names = rows["measure"].drop_nulls().unique()
    kept = rows.filter(measure="R" if "R" in names else "Success")
    found = kept.select("system", "split", "measure", "k", recall="value")
    return found.select(pl.all().sort_by("k").over("split", "system", mapping_strategy="explode"))


def write_png(
    path: Path, panels: Sequence[tuple[str, Callable[["Axes"], None]]], *, width: float, height: float
) -> None:
    """Save panels side by side, with one legend below; the same drawing gives the same bytes.

    Args:
        panels: title, and what paints on axes.
        width, height: of a panel, in inches.
    """
    # Drawn without pyplot: no window system, no global state, no font cache of interactive backends.
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width * len(panels), height), layout="constrained")
        FigureCanvasAgg(figure)
        named: dict[str, Any] = {}
        for axes, (title, paint) in zip(figure.subplots(1, len(panels), squeeze=False).flat, panels, strict=True):
            paint(axes)
            axes.set_title(title, wrap=True)
            handles, labels = axes.get_legend_handles_labels()
            named = dict(zip(labels, handles, strict=True)) | named
        if named:
            columns = 2 * len(panels)
            figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=columns, frameon=False)
        figure.savefig(path, dpi=120, metadata={"Software": None})


def system_style(system: str) -> dict[str, Any]:
    """A system's colour and mark, as keyword arguments of matplotlib."""
    place = list(registry().systems).index(system)
    return {"color": f"#{COLOURS[place % len(COLOURS)]}", "marker": MARKS[place % len(MARKS)]}


def _paint_means(values: pl.DataFrame, axes: "Axes") -> None:
    """Each system's mean with its 95% interval, the first at the top. `values`: columns system, measure, value."""
    parts = {str(name): of["value"].to_numpy() for (name,), of in values.group_by("system", maintain_order=True)}
    for place, (system, of) in enumerate(parts.items()):
        low, high = interval(of)
        half = 50 * (high - low)
        axes.errorbar(100 * of.mean(), place, xerr=half, linestyle="", **system_style(system))
    axes.set(yticks=range(len(parts)), yticklabels=[_wrapped(system) for system in parts])
    axes.set(xlabel=f"{values['measure'][0]} (points)", ylim=(len(parts) - 0.4, -0.6))


def _paint_recall(recall: pl.DataFrame, axes: "Axes") -> None:
    """R@k (or Success@k) against k, one line per system. `recall`: as `recall_of` has it."""
    for (system,), rows in recall.group_by("system", maintain_order=True):
        style = {"markersize": 4, "label": _wrapped(str(system)), **system_style(str(system))}
        axes.plot(rows["k"], 100 * rows["recall"], **style)
    depths = recall["k"].unique().sort().to_list()
    axes.set(xlabel="k", ylabel=f"{next(iter(recall['measure']), 'R')}@k (points)", xscale="log")
    axes.set_xticks(depths, [str(depth) for depth in depths])
    axes.minorticks_off()


def _wrapped(system: str) -> str:
    """A system's title, broken into lines that fit beside an axis."""
    return textwrap.fill(title_of(system), LINE)
