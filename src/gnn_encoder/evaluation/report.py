"""What an evaluation shows: a Markdown table, CSV for `dvc plots`, PNG pictures."""

import operator
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from gnn_encoder.evaluation.figure import figure
from gnn_encoder.evaluation.significance import Comparison, interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gnn_encoder.evaluation.costs import Costs

Means = dict[str, dict[str, float]]  # system -> measure -> value in 0..1
Comparisons = dict[str, Comparison]  # system -> it against its baseline
RECALL = re.compile(r"^(R|Success)@(\d+)$")


def markdown_table(means: Means, comparisons: Comparisons, measure: str) -> str:
    """Systems by measures in points (0..100), with each one's difference from its baseline in `measure` and its p."""
    names = list(next(iter(means.values())))
    header = ["system", *names, f"{measure} against", "", "95% interval", "p (Holm)"]
    rows = []
    for system, values in means.items():
        found = comparisons.get(system)
        test = [""] * 4
        if found:
            test = [found.baseline, f"{100 * found.difference:+.1f}", _interval(found), _p(found.p_holm)]
        rows.append([system, *(f"{100 * values[name]:.1f}" for name in names), *test])
    return markdown(header, rows)


def write_measures_csv(path: Path, means: dict[str, Means]) -> None:
    """One row a system, split and measure. `means`: split -> system -> measure -> value in 0..1."""
    rows = [
        (system, split, measure, value)
        for split, systems in means.items()
        for system, values in systems.items()
        for measure, value in values.items()
    ]
    pl.DataFrame(rows, schema=["system", "split", "measure", "value"], orient="row").write_csv(path)


def write_recall_csv(path: Path, means: dict[str, Means]) -> None:
    """One row a system, split and depth k of recall R@k; of Success@k where a split has no R@k."""
    rows = [
        (system, split, name, depth, values[f"{name}@{depth}"])
        for split, systems in means.items()
        for system, values in systems.items()
        for name, depth in recalls(values)
    ]
    schema = {"system": pl.String, "split": pl.String, "measure": pl.String, "k": pl.Int64, "recall": pl.Float64}
    pl.DataFrame(rows, schema=schema, orient="row").write_csv(path)


def recalls(names: Iterable[str]) -> list[tuple[str, int]]:
    """`R` and k of every R@k among the measures, smallest k first; `Success` and k where there is none."""
    found = [(match.group(1), int(match.group(2))) for match in map(RECALL.match, names) if match]
    return sorted([one for one in found if one[0] == "R"] or found)


def draw_bars(path: Path, values: pl.DataFrame, measure: str) -> None:
    """Mean of `measure` by system with its 95% interval over questions, one panel a split.

    `values`: columns system, split, qid, measure, value.
    """
    chosen = values.filter(pl.col("measure") == measure)
    splits = chosen["split"].unique(maintain_order=True)
    with figure(path, panels=len(splits)) as panels:
        for axes, split in zip(panels, splits, strict=True):
            _bars(axes, chosen.filter(pl.col("split") == split))
            axes.set(title=f"{split} questions", ylabel=f"{measure} (points)")


def draw_recall(path: Path, means: dict[str, Means]) -> None:
    """R@k against k, a line a system, one panel a split; Success@k where a split has no R@k.

    `means`: split -> system -> measure -> value.
    """
    with figure(path, panels=len(means)) as panels:
        for axes, (split, systems) in zip(panels, means.items(), strict=True):
            for system, values in systems.items():
                found = recalls(values)
                points = [100 * values[f"{name}@{depth}"] for name, depth in found]
                axes.plot([depth for _, depth in found], points, marker="o", label=system)
            name = next((name for values in systems.values() for name, _ in recalls(values)), "R")
            axes.set(title=f"{split} questions", xlabel="k", ylabel=f"{name}@k (points)", xscale="log")
            axes.grid(alpha=0.3)
            axes.legend()


def draw_training(path: Path, history: pl.DataFrame) -> None:
    """Loss and dev RR@10 against optimiser steps, a colour a phase.

    `history`: columns phase, step, loss, dev_rr10; a row has one value or both.
    """
    with figure(path, panels=2) as (losses, quality):
        for phase, part in history.group_by("phase", maintain_order=True):
            for axes, column, scale in ((losses, "loss", 1), (quality, "dev_rr10", 100)):
                points = part.drop_nulls(column).drop_nans(column)
                marker = "." if len(points) < 50 else ""
                axes.plot(points["step"], points[column] * scale, marker=marker, label=phase[0])
        losses.set(xlabel="step", ylabel="loss (nats a question)")
        quality.set(xlabel="step", ylabel="RR@10 of the watched dev questions (points)")
        for axes in (losses, quality):
            axes.grid(alpha=0.3)
            if axes.lines:
                axes.legend()


def costs_table(costs: "dict[str, Costs]") -> str:
    """What each system costs, as Markdown."""
    header = ["system", "vectors a passage", "bytes a passage", "encode ms", "search ms", "training s"]
    rows = []
    for system, cost in costs.items():
        seconds = "" if cost.training_seconds is None else f"{cost.training_seconds:.0f}"
        numbers = [f"{cost.bytes_a_passage:.0f}", f"{cost.encode_ms:.2f}", f"{cost.search_ms:.2f}", seconds]
        rows.append([system, f"{cost.vectors_a_passage:g}", *numbers])
    return markdown(header, rows)


def draw_costs(path: Path, values: pl.DataFrame, costs: "dict[str, Costs]", measure: str) -> None:
    """Mean of `measure` with its 95% interval against bytes a passage, and against milliseconds a question.

    `values`: columns system, value, of one split.
    """
    with figure(path, panels=2) as panels:
        for axes, label, of in (
            (panels[0], "index bytes a passage", operator.attrgetter("bytes_a_passage")),
            (panels[1], "ms a question (encode and search)", operator.attrgetter("latency_ms")),
        ):
            positions = _side_by_side([of(cost) for cost in costs.values()])
            for system, x in zip(costs, positions, strict=True):
                numbers = values.filter(system=system)["value"].to_numpy()
                average, (low, high) = numbers.mean(), interval(numbers)
                error = [[100 * (average - low)], [100 * (high - average)]]
                axes.errorbar(x, 100 * average, yerr=error, fmt="o", capsize=3, label=system)
            axes.set(xlabel=label, ylabel=f"{measure} (points)")
            axes.grid(alpha=0.3)
        panels[1].legend(fontsize="small")


def _side_by_side(values: list[float]) -> list[float]:
    """Shifted a little each, so that points of equal value do not hide one another."""
    step = 0.015 * max(values)
    return [value + step * (place - (len(values) - 1) / 2) for place, value in enumerate(values)]


def draw_views(path: Path, curve: pl.DataFrame, measure: str) -> None:
    """Quality, size and time against the number of views a passage.

    `curve`: columns views, `measure`, index_bytes, milliseconds.
    """
    with figure(path, panels=3) as panels:
        drawn = (
            (100 * curve[measure], f"{measure} (points)"),
            (curve["index_bytes"] / 1024, "index (KiB a passage)"),
            (curve["milliseconds"], "search (ms a question, one thread)"),
        )
        for axes, (values, label) in zip(panels, drawn, strict=True):
            axes.plot(curve["views"], values, marker="o")
            axes.set(xlabel="views a passage", ylabel=label, xticks=curve["views"].to_list())
            axes.grid(alpha=0.3)
        for axes in panels[1:]:
            axes.set_ylim(bottom=0)


def draw_similarities(path: Path, found: dict[str, dict[str, float]]) -> None:
    """Mean s(p+, q) and s(p+, p-) of each system with their standard deviations.

    `found`: system -> `s(p+,q)`, `s(p+,p-)`, and each with ` std`.
    """
    with figure(path, panels=2) as panels:
        for axes, name in zip(panels, ("s(p+,p-)", "s(p+,q)"), strict=True):
            for system, values in found.items():
                bars = axes.bar(system, values[name], yerr=values[f"{name} std"], capsize=4)
                axes.bar_label(bars, fmt="%.3f", label_type="center", color="white")
            axes.set(title=name, ylabel="mean and standard deviation")


def _interval(found: Comparison) -> str:
    return f"{100 * found.low:+.1f} to {100 * found.high:+.1f}"


def _p(p: float) -> str:
    return f"{p:.1g}" if p < 0.01 else f"{p:.2f}"


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """Columns padded to equal width, numbers to the right."""
    widths = [max(3, *(len(row[i]) for row in [header, *rows])) for i in range(len(header))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]

    def line(cells: list[str]) -> str:
        padded = [cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))]
        return f"| {' | '.join(padded)} |"

    return "\n".join(line(row) for row in [header, rule, *rows])


def _bars(axes: "Axes", values: pl.DataFrame) -> None:
    for system, part in values.group_by("system", maintain_order=True):
        numbers = part["value"].to_numpy()
        average, (low, high) = numbers.mean(), interval(numbers)
        error = [[100 * (average - low)], [100 * (high - average)]]
        bars = axes.bar(str(system[0]), 100 * average, yerr=error, capsize=4)
        axes.bar_label(bars, fmt="%.1f", label_type="center", color="white")
    axes.tick_params(axis="x", rotation=40)
    for label in axes.get_xticklabels():
        label.set_horizontalalignment("right")
