"""Ablations and sweeps over several seeds (GNN-encoder, Table 3, Figures 3 and 4): their tables and figures."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from gnn_encoder.evidence.summary import Mean, Summary
from gnn_encoder.evidence.trials import ABLATIONS, BETA, K
from gnn_encoder.presenting.figure import Panel
from gnn_encoder.presenting.formats import comparison, point_range, points
from gnn_encoder.presenting.names import name_of
from gnn_encoder.presenting.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = {ABLATIONS: "System", K: "passages a query", BETA: "beta"}
INK, SEED = "C0", "0.5"
Interval = tuple[float, float, float, list[float]]  # a system's mean, both ends of its interval, means of single seeds


def summary_tables(found: dict[str, Summary], title: str, label: str, tested: str) -> Iterator[Table]:
    """One table per split, test first, with one row per system.

    Its columns are the means of all measures in points; of the measure `tested` also the interval and the spread over
    seeds; and the differences from the baselines.
    """
    for split, summary in reversed(found.items()):
        against = [f"against {name_of(baseline)}" for baseline in summary.against]
        yield Table(
            title=f"{title}, {split} queries, points of 100",
            columns=[label, *summary.means, f"{tested}, 95%", f"{tested}, seeds", *against],
            rows=[_row(system, mean, summary) for system, mean in summary.means[tested].items()],
        )


def ablation_panels(found: dict[str, Summary], tested: str, baseline: str) -> list[Panel]:
    """Two panels per split: the systems' means, and their differences from `baseline`."""
    panels = []
    for split, summary in found.items():
        means = {name: (of.mean, of.low, of.high, of.seeds) for name, of in summary.means[tested].items()}
        gains: dict[str, Interval] = {
            name: (of.difference, of.low, of.high, []) for name, of in summary.against[baseline].items()
        }
        for name, title, drawn in (
            ("means", f"{tested}, {split} queries", means),
            ("differences", f"{tested} minus that of {name_of(baseline)}, {split} queries", gains),
        ):
            paint = partial(paint_intervals, systems=list(means), found=drawn, zero=drawn is gains)
            panels.append(Panel(name=f"{name}-{split}", title=title, paint=paint, size=(6.0, 1 + 0.36 * len(means))))
    return panels


def sweep_panels(found: dict[str, Summary], kind: str) -> list[Panel]:
    """One panel per measure."""
    panels = []
    for measure in next(iter(found.values())).means:
        means = {split: summary.means[measure] for split, summary in found.items()}
        paint = partial(paint_sweep, means=means, kind=kind)
        panels.append(Panel(name=f"{kind}-{measure}", title=measure, paint=paint, size=(4.2, 3.8)))
    return panels


def paint_intervals(axes: "Axes", systems: Sequence[str], found: Mapping[str, Interval], *, zero: bool) -> None:
    """Draw one row per system: its mean or difference with a 95% interval over queries; small dots are single seeds.

    Args:
        zero: whether to draw a line at 0, for differences.
    """
    for y, system in enumerate(systems):
        if system in found:
            middle, low, high, seeds = (100 * np.array(part) for part in found[system])
            axes.errorbar(middle, y, xerr=[[middle - low], [high - middle]], fmt="o", color=INK)
            axes.plot(seeds, np.full(len(seeds), y + 0.25), ".", color=SEED, markersize=4)
    if zero:
        axes.axvline(0, color=SEED, linewidth=1)
    names = [name_of(system) for system in systems]
    axes.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5), xlabel="points")
    axes.grid(visible=False, axis="y")


def paint_sweep(axes: "Axes", means: dict[str, dict[str, Mean]], kind: str) -> None:
    """Draw one line per split: means with 95% intervals over queries, and small dots for single seeds.

    Args:
        means: split -> system -> mean; a system's name is its number on the x-axis.
    """
    xs = sorted({float(system) for of in means.values() for system in of})
    for place, (split, of) in enumerate(means.items()):
        found = [of[system] for system in sorted(of, key=float)]
        middle, low, high = (100 * np.array([getattr(mean, end) for mean in found]) for end in ("mean", "low", "high"))
        axes.errorbar(xs, middle, yerr=[middle - low, high - middle], fmt="o-", color=f"C{place}", label=split)
        for x, mean in zip(xs, found, strict=True):
            axes.plot([x] * len(mean.seeds), 100 * np.array(mean.seeds), ".", color=f"C{place}", alpha=0.5)
    axes.set(xlabel=LABELS[kind], ylabel="points", xscale="log" if kind == BETA else "linear")
    axes.set_xticks(xs, [f"{x:g}" for x in xs])
    axes.minorticks_off()


def _row(system: str, mean: Mean, summary: Summary) -> list[str]:
    means = [points(of[system].mean) for of in summary.means.values()]
    seeds = point_range(min(mean.seeds), max(mean.seeds))
    against = [comparison(of.get(system)) for of in summary.against.values()]
    return [name_of(system), *means, point_range(mean.low, mean.high), seeds, *against]
