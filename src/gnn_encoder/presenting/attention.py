"""Attention of passages to the queries around them, with and without Masked Graph Training (the paper's Figure 2)."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from gnn_encoder.evidence.attention import ITSELF, LABELLED, MODELS, OTHER, POTENTIAL
from gnn_encoder.presenting.figure import Panel
from gnn_encoder.presenting.formats import p_value, share, shortened
from gnn_encoder.presenting.names import TITLES
from gnn_encoder.presenting.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Red and blue as in the paper's Figure 2.
COLOURS = {LABELLED: "tab:red", POTENTIAL: "tab:blue", OTHER: "0.65", ITSELF: "0.85"}
CALLED = {
    LABELLED: "labelled",
    POTENTIAL: "potentially relevant",
    OTHER: "other query",
    ITSELF: "the passage itself",
}
MODEL_NAMES = {"without": "without MGT", "with": "with MGT"}
LONGEST = 60  # characters of a query that are drawn
Shares = dict[str, dict[str, dict[str, Any]]]  # kind of neighbour -> without, with, difference -> fields


def shares_table(shares: Shares) -> Table:
    """Mean attention to one neighbour of each kind, one row per kind."""
    rows = []
    for kind, found in shares.items():
        means = [share(found[m]["mean"], found[m]["low"], found[m]["high"]) for m in MODELS]
        gain = found["difference"]
        rows.append(
            [CALLED[kind], str(found["with"]["passages"]), *means, f"{gain['difference']:+.3f}", p_value(gain["p"])]
        )
    columns = ["neighbour", "passages", *MODEL_NAMES.values(), "difference", "p"]
    return Table(title=TITLES["attention_shares"], columns=columns, rows=rows)


def attention_panel(passage: pl.DataFrame, names: Sequence[str], model: str) -> Panel:
    """Attention of one passage to each of its queries and to itself, by the model `without` or `with` MGT.

    Args:
        passage: columns kind, `without`, `with`, `gate_without`, `gate_with`; one row per neighbour.
        names: labels of the neighbours.
    """
    title = f"{MODEL_NAMES[model]}, gate {passage[f'gate_{model}'][0]:.3f}"
    paint = partial(paint_attention, kinds=passage["kind"], attention=passage[model], names=names)
    return Panel(name=f"attention-{model}", title=title, paint=paint, size=(6.0, max(2.4, 0.3 * len(names) + 0.9)))


def nothing_panel() -> Panel:
    """An empty panel, shown if there is no passage to draw."""
    text = "no passage has labelled and potentially relevant queries"
    return Panel(name="attention", title=text, paint=lambda axes: axes.set_axis_off(), size=(6.0, 2.4))


def shares_panel(shares: Shares) -> Panel:
    """Mean attention to one neighbour of each kind, without and with MGT, with 95% intervals over passages."""
    title = "hatched: without MGT; plain: with MGT"
    return Panel(name="attention-shares", title=title, paint=partial(paint_shares, shares=shares), size=(5.5, 4.0))


def paint_attention(axes: "Axes", kinds: pl.Series, attention: pl.Series, names: Sequence[str]) -> None:
    """Draw one bar per neighbour, in the colour of its kind."""
    for kind, name in CALLED.items():
        places = [place for place, found in enumerate(kinds) if found == kind]
        axes.barh(places, attention.gather(places), color=COLOURS[kind], label=name)
    axes.set(yticks=range(len(names)), yticklabels=[shortened(name, LONGEST) for name in names], xlabel="attention")
    axes.set(ylim=(len(names) - 0.4, -0.6))
    axes.grid(visible=False, axis="y")


def paint_shares(axes: "Axes", shares: Shares) -> None:
    """Draw two bars per kind: without and with MGT."""
    for place, (kind, found) in enumerate(shares.items()):
        for side, model in enumerate(MODELS):
            mean = found[model]
            error = [[mean["mean"] - mean["low"]], [mean["high"] - mean["mean"]]]
            hatch = "//" if model == "without" else None
            axes.bar(place + 0.4 * side, mean["mean"], 0.38, yerr=error, color=COLOURS[kind], hatch=hatch)
    names = [CALLED[kind].replace(" ", "\n", 1) for kind in shares]
    axes.set_xticks([place + 0.2 for place in range(len(shares))], names)
    axes.set(ylabel="attention to one neighbour")
    axes.grid(visible=False, axis="x")
