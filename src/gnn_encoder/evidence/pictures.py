"""The evidence as PNG: ablations, sweeps, attention."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from gnn_encoder.evaluation.figure import figure
from gnn_encoder.evidence.attention import ITSELF, LABELLED, MODELS, OTHER, POTENTIAL
from gnn_encoder.evidence.summary import Mean, Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Red and blue as in the paper's Figure 2.
COLOURS = {LABELLED: "tab:red", POTENTIAL: "tab:blue", OTHER: "0.65", ITSELF: "0.85"}
CALLED = {
    LABELLED: "labelled",
    POTENTIAL: "potentially relevant",
    OTHER: "other question",
    ITSELF: "the passage itself",
}
TITLES = {"without": "without MGT", "with": "with MGT"}
LONGEST = 60  # characters of a question that are drawn


def draw_ablations(path: Path, summaries: dict[str, Summary], tested: str, baseline: str) -> None:
    """A row a split: each system's mean, and its difference from `baseline`, with 95% intervals over questions.

    Small dots are the means of single seeds.
    """
    with figure(path, 2, rows=len(summaries), size=(6.0, 3.2), shared=True) as panels:
        for number, (split, summary) in enumerate(summaries.items()):
            means, differences = panels[2 * number : 2 * number + 2]
            systems = list(summary.means[tested])
            for y, (system, mean) in enumerate(summary.means[tested].items()):
                _point(means, mean, y)
                found = summary.against[baseline].get(system)
                if found:
                    error = [[100 * (found.difference - found.low)], [100 * (found.high - found.difference)]]
                    differences.errorbar(100 * found.difference, y, xerr=error, fmt="o", color="C0", capsize=3)
            differences.axvline(0, color="0.5", linewidth=1)
            means.set(yticks=range(len(systems)), yticklabels=systems, xlabel=f"{tested}, {split} (points)")
            means.set_ylim(len(systems) - 0.5, -0.5)
            differences.set(xlabel=f"{tested} minus that of {baseline}, {split} (points)")
            for axes in (means, differences):
                axes.grid(axis="x", alpha=0.3)


def draw_sweep(path: Path, summaries: dict[str, Summary], xlabel: str, *, logarithmic: bool) -> None:
    """A panel a measure, a line a split: means with 95% intervals over questions; small dots are single seeds.

    The systems are called by the number on the x-axis.
    """
    measures = list(next(iter(summaries.values())).means)
    with figure(path, len(measures), size=(4.2, 3.6)) as panels:
        for axes, measure in zip(panels, measures, strict=True):
            for colour, (split, summary) in enumerate(summaries.items()):
                _line(axes, summary.means[measure], f"C{colour}", split)
            xs = sorted(map(float, next(iter(summaries.values())).means[measure]))
            axes.set(xlabel=xlabel, ylabel=f"{measure} (points)", xscale="log" if logarithmic else "linear")
            axes.set_xticks(xs, [f"{x:g}" for x in xs])
            axes.minorticks_off()
            axes.grid(alpha=0.3)
        panels[0].legend()


def draw_attention(path: Path, passages: Sequence[pl.DataFrame], labels: Sequence[Sequence[str]]) -> None:
    """A row a passage: attention to each of its questions without MGT (left) and with it (right).

    Args:
        passages: columns kind, `without`, `with`; a row a neighbour.
        labels: what those are called.
    """
    rows = max(1, len(passages))
    height = max([2.4, *(0.3 * len(names) + 0.9 for names in labels)])
    with figure(path, 2, rows=rows, size=(6.0, height), shared=True) as panels:
        for number, (table, names) in enumerate(zip(passages, labels, strict=True)):
            for axes, model in zip(panels[2 * number :], MODELS, strict=False):
                colours = [COLOURS[kind] for kind in table["kind"]]
                axes.barh(range(len(table)), table[model], color=colours)
                axes.set(yticks=range(len(table)), yticklabels=[name[:LONGEST] for name in names], xlabel="attention")
                axes.set_title(f"{TITLES[model]}, gate {table[f'gate_{model}'][0]:.3f}")
                axes.grid(axis="x", alpha=0.3)
            panels[2 * number].invert_yaxis()  # its neighbour shares the axis
        _legend(panels[1])
        if not passages:
            for axes in panels:
                axes.text(0.5, 0.5, "no passage has labelled and potentially relevant questions", ha="center")


def draw_shares(path: Path, shares: dict[str, dict[str, dict[str, Any]]]) -> None:
    """Mean attention to one neighbour of each kind, without and with MGT, with 95% intervals over passages."""
    with figure(path, 1) as (axes,):
        for place, (kind, found) in enumerate(shares.items()):
            for side, model in enumerate(MODELS):
                share = found[model]
                error = [[share["mean"] - share["low"]], [share["high"] - share["mean"]]]
                hatch = "//" if model == "without" else None
                axes.bar(
                    place + 0.4 * side, share["mean"], 0.38, yerr=error, color=COLOURS[kind], hatch=hatch, capsize=3
                )
        axes.set_xticks([place + 0.2 for place in range(len(shares))], [CALLED[kind] for kind in shares])
        axes.set(ylabel="attention to one neighbour", title="hatched: without MGT; plain: with MGT")
        axes.tick_params(axis="x", labelsize="small")


def _point(axes: "Axes", mean: Mean, y: float) -> None:
    error = [[100 * (mean.mean - mean.low)], [100 * (mean.high - mean.mean)]]
    axes.errorbar(100 * mean.mean, y, xerr=error, fmt="o", color="C0", capsize=3)
    axes.plot([100 * value for value in mean.seeds], [y + 0.25] * len(mean.seeds), ".", color="0.5", markersize=4)


def _line(axes: "Axes", means: dict[str, Mean], colour: str, label: str) -> None:
    points = sorted((float(name), mean) for name, mean in means.items())
    xs = [x for x, _ in points]
    heights = [100 * mean.mean for _, mean in points]
    low = [100 * (mean.mean - mean.low) for _, mean in points]
    high = [100 * (mean.high - mean.mean) for _, mean in points]
    axes.errorbar(xs, heights, yerr=[low, high], fmt="o-", color=colour, capsize=3, label=label)
    for x, mean in points:
        axes.plot([x] * len(mean.seeds), [100 * value for value in mean.seeds], ".", color=colour, alpha=0.5)


def _legend(axes: "Axes") -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=colour, label=CALLED[kind]) for kind, colour in COLOURS.items()]
    axes.legend(handles=handles, fontsize="small", loc="lower right")
