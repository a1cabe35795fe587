"""Ablations and sweeps over several seeds (GNN-encoder, Table 3, Figures 3 and 4): their tables and figures."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gnn_encoder.evaluation.significance import Comparison
from gnn_encoder.evidence.summary import Mean, Summary
from gnn_encoder.evidence.trials import ABLATIONS, BETA, K
from gnn_encoder.presenting.formats import comparison, point_range, points
from gnn_encoder.presenting.names import name_of
from gnn_encoder.presenting.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = {ABLATIONS: "System", K: "passages a question", BETA: "beta"}
INK, SEED = "C0", "0.5"


def summary_tables(found: dict[str, Summary], title: str, label: str, tested: str) -> Iterator[Table]:
    """A table a split, test first, and in it a row a system.

    The columns are its means in points, the interval and the spread over seeds of `tested`, and the differences.
    """
    for split, summary in reversed(found.items()):
        against = [f"against {name_of(baseline)}" for baseline in summary.against]
        yield Table(
            title=f"{title}, {split} questions, points of 100",
            columns=[label, *summary.means, f"{tested}, 95%", f"{tested}, seeds", *against],
            rows=[_row(system, mean, summary) for system, mean in summary.means[tested].items()],
        )


def paint_means(axes: "Axes", means: dict[str, Mean], label: str) -> None:
    """A row a system: its mean with the 95% interval over queries; below it small dots, the means of single seeds."""
    for y, mean in enumerate(means.values()):
        error = [[100 * (mean.mean - mean.low)], [100 * (mean.high - mean.mean)]]
        axes.errorbar(100 * mean.mean, y, xerr=error, fmt="o", color=INK)
        seeds = [100 * value for value in mean.seeds]
        axes.plot(seeds, [y + 0.25] * len(seeds), ".", color=SEED, markersize=4)
    _name_rows(axes, list(means), label)


def paint_differences(axes: "Axes", systems: list[str], against: dict[str, Comparison], label: str) -> None:
    """A row a system: its difference from the baseline with the 95% interval; nothing in the baseline's own row."""
    for y, system in enumerate(systems):
        if found := against.get(system):
            error = [[100 * (found.difference - found.low)], [100 * (found.high - found.difference)]]
            axes.errorbar(100 * found.difference, y, xerr=error, fmt="o", color=INK)
    axes.axvline(0, color=SEED, linewidth=1)
    _name_rows(axes, systems, label)


def paint_sweep(axes: "Axes", means: dict[str, dict[str, Mean]], kind: str, measure: str) -> None:
    """A line a split: means with 95% intervals over queries; small dots are single seeds.

    Args:
        means: split -> system -> mean; the systems are called by the number on the x-axis.
    """
    xs = sorted({float(system) for of in means.values() for system in of})
    for colour, (split, of) in enumerate(means.items()):
        _line(axes, sorted((float(system), mean) for system, mean in of.items()), f"C{colour}", split)
    axes.set(xlabel=LABELS[kind], ylabel=f"{measure} (points)", xscale="log" if kind == BETA else "linear")
    axes.set_xticks(xs, [f"{x:g}" for x in xs])
    axes.minorticks_off()


def _row(system: str, mean: Mean, summary: Summary) -> list[str]:
    means = [points(of[system].mean) for of in summary.means.values()]
    seeds = point_range(min(mean.seeds), max(mean.seeds))
    against = [comparison(of.get(system)) for of in summary.against.values()]
    return [name_of(system), *means, point_range(mean.low, mean.high), seeds, *against]


def _name_rows(axes: "Axes", systems: list[str], label: str) -> None:
    names = [name_of(system) for system in systems]
    axes.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5), xlabel=label)
    axes.grid(visible=False, axis="y")


def _line(axes: "Axes", points: list[tuple[float, Mean]], colour: str, label: str) -> None:
    xs = [x for x, _ in points]
    error = [
        [100 * (mean.mean - mean.low) for _, mean in points],
        [100 * (mean.high - mean.mean) for _, mean in points],
    ]
    axes.errorbar(xs, [100 * mean.mean for _, mean in points], yerr=error, fmt="o-", color=colour, label=label)
    for x, mean in points:
        axes.plot([x] * len(mean.seeds), [100 * value for value in mean.seeds], ".", color=colour, alpha=0.5)
