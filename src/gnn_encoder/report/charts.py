"""The pictures of a report: quality, cost, recall, training, PAIR's similarities, Dual-Cross-Encoder's views."""

import textwrap
from itertools import cycle
from typing import TYPE_CHECKING, Any

import polars as pl
from markupsafe import Markup

from gnn_encoder.core import project
from gnn_encoder.evaluation.report import recalls
from gnn_encoder.report.names import name_of
from gnn_encoder.report.pictures import INK, draw
from gnn_encoder.report.results import Mean, Means

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Seen on white as on black; a system keeps its colour and its mark in every picture.
COLOURS = "7d8590 b07d2b 2f7fd1 2b9a9a d2492a 8c6bd6 b04fc0 6f9a2e 2e9e5b d6457e a8703f".split()
LOOKS = {
    system: (f"#{colour}", mark)
    for system, colour, mark in zip(project.BRANCH_OF, cycle(COLOURS), cycle("os^vDPX<>*h"))
}
OTHER = ("#7d8590", "o")
WATCHED = "#d2492a"
TALL, SMALL = (4.6, 4.6), (3.4, 2.6)  # inches


def systems_chart(means: Means, split: str, measure: str) -> Markup | None:
    """Each system's mean with its 95% interval; None without `measure`."""
    shown = [(system, of[measure]) for system, of in reversed(means.items()) if measure in of]

    def paint(axes: "Axes") -> None:
        for place, (system, mean) in enumerate(shown):
            colour, mark = LOOKS.get(system, OTHER)
            axes.errorbar(100 * mean.mean, place, xerr=_half(mean), fmt=mark, color=colour, capsize=3)
        axes.set(yticks=range(len(shown)), yticklabels=[_wrapped(system) for system, _ in shown])
        axes.set(xlabel=f"{measure} (points)", ylim=(-0.6, len(shown) - 0.4))

    title = f"{measure} of each system on the {split} questions, with its 95% interval"
    return draw(f"systems-{split}", title, paint, (4.6, 0.8 + 0.3 * len(shown))) if shown else None


def recall_chart(means: Means, split: str) -> Markup | None:
    """R@k (or Success@k) against k, a line a system; None where fewer than two depths were measured."""
    shown = {system: recalls(of) for system, of in means.items()}
    if not any(len(found) > 1 for found in shown.values()):
        return None
    name = next(name for found in shown.values() for name, _ in found)

    def paint(axes: "Axes") -> None:
        for system, found in shown.items():
            colour, mark = LOOKS.get(system, OTHER)
            values = [100 * means[system][f"{name}@{depth}"].mean for name, depth in found]
            depths = [depth for _, depth in found]
            axes.plot(depths, values, marker=mark, markersize=4, color=colour, label=_wrapped(system))
        axes.set(xlabel="k", ylabel=f"{name}@k (points)", xscale="log")

    return draw(f"recall-{split}", f"{name}@k against k on the {split} questions", paint, TALL)


def cost_charts(means: dict[str, Mean], costs: dict[str, Any], measure: str) -> list[Markup]:
    """Quality of the test questions against bytes a passage, and against milliseconds a question."""
    sizes = [costs[system]["bytes_a_passage"] for system in means]
    latencies = [costs[system]["encode_ms"] + costs[system]["search_ms"] for system in means]
    return [
        _cost_chart("size", means, sizes, "index (bytes a passage)", measure),
        _cost_chart("latency", means, latencies, "encode and search (ms a question)", measure),
    ]


def _cost_chart(name: str, means: dict[str, Mean], costs: list[float], label: str, measure: str) -> Markup:
    def paint(axes: "Axes") -> None:
        for (system, mean), x in zip(means.items(), _side_by_side(costs), strict=True):
            colour, mark = LOOKS.get(system, OTHER)
            y, half = 100 * mean.mean, _half(mean)
            axes.errorbar(x, y, yerr=half, fmt=mark, color=colour, capsize=3, label=_wrapped(system))
        axes.set(xlabel=label, ylabel=f"{measure} (points)")
        axes.set_xlim(left=0)

    return draw(f"cost-{name}", f"{measure} of the test questions against {label}", paint, TALL)


def training_chart(name: str, history: pl.DataFrame) -> Markup:
    """Loss of every optimiser step, a colour a phase; RR@10 of the watched dev questions on the right."""

    def paint(axes: "Axes") -> None:
        losses, watched = history.drop_nulls("loss"), history.drop_nulls("dev_rr10")
        for (phase,), part in losses.group_by("phase", maintain_order=True):
            axes.plot(part["step"], part["loss"], linewidth=1.2, label=f"loss, {phase}")
        axes.set(xlabel="step", ylabel="loss (nats a question)")
        if len(watched):
            right = axes.twinx()
            right.plot(watched["step"], 100 * watched["dev_rr10"], "o-", color=WATCHED, markersize=4)
            right.set_ylabel("dev RR@10 (points)", color=WATCHED)
            right.grid(visible=False)

    return draw(f"training-{name.replace('/', '-').replace('_', '-')}", f"Loss of {name} while it trains", paint, SMALL)


def similarity_chart(found: dict[str, dict[str, float]]) -> Markup:
    """Mean s(p+, q) and s(p+, p-) of each system, with their standard deviations (PAIR, Figure 4)."""

    def paint(axes: "Axes") -> None:
        names = ("s(p+,q)", "s(p+,p-)")
        for place, (system, values) in enumerate(found.items()):
            colour, _ = LOOKS.get(system, OTHER)
            x = [group + 0.38 * (place - (len(found) - 1) / 2) for group in range(len(names))]
            heights, spread = ([values[name + suffix] for name in names] for suffix in ("", " std"))
            bars = axes.bar(x, heights, 0.36, yerr=spread, capsize=3, ecolor=INK, color=colour, label=_wrapped(system))
            axes.bar_label(bars, fmt="%.3f", label_type="center", color="white")
        axes.set(xticks=range(len(names)), xticklabels=names, ylabel="similarity")
        axes.grid(visible=False, axis="x")

    return draw("similarity", "Mean similarity of positive passages to questions and to hard negatives", paint)


def views_charts(curve: pl.DataFrame, measure: str) -> list[Markup]:
    """Quality, size and latency against the views that a passage has (Dual-Cross-Encoder, Table 6)."""
    return [
        _views_chart("quality", curve["views"], 100 * curve[measure], f"{measure} (points)"),
        _views_chart("size", curve["views"], curve["index_bytes"] / 1024, "index (KiB a passage)"),
        _views_chart("latency", curve["views"], curve["milliseconds"], "search (ms a question)"),
    ]


def _views_chart(name: str, views: pl.Series, values: pl.Series, label: str) -> Markup:
    def paint(axes: "Axes") -> None:
        axes.plot(views, values, marker="o", color=LOOKS.get("dual_cross", OTHER)[0])
        axes.set(xlabel="views a passage", ylabel=label, xticks=views.to_list())
        if name != "quality":
            axes.set_ylim(bottom=0)

    return draw(f"views-{name}", f"{label} against views a passage", paint, SMALL)


def _wrapped(system: str) -> str:
    return textwrap.fill(name_of(system), 22)


def _half(mean: Mean) -> float | None:
    return None if mean.half is None else 100 * mean.half


def _side_by_side(values: list[float]) -> list[float]:
    """Shifted a little each, so that points of equal value do not hide one another."""
    step = 0.006 * max(values)
    return [value + step * (place - (len(values) - 1) / 2) for place, value in enumerate(values)]
