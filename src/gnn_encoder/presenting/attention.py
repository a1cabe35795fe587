"""Attention of passages to the queries around them, with and without Masked Graph Training (the paper's Figure 2)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from gnn_encoder.evidence.attention import ITSELF, LABELLED, MODELS, OTHER, POTENTIAL
from gnn_encoder.presenting.formats import p_value, share
from gnn_encoder.presenting.tables import Table
from gnn_encoder.presenting.titles import TITLES

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
MODEL_NAMES = {"without": "without MGT", "with": "with MGT"}
LONGEST = 60  # characters of a query that are drawn
Shares = dict[str, dict[str, dict[str, Any]]]  # kind of neighbour -> without, with, difference -> fields


def shares_table(shares: Shares) -> Table:
    """Mean attention to one neighbour of each kind."""
    rows = []
    for kind, found in shares.items():
        means = [share(found[m]["mean"], found[m]["low"], found[m]["high"]) for m in MODELS]
        gain = found["difference"]
        rows.append(
            [CALLED[kind], str(found["with"]["passages"]), *means, f"{gain['difference']:+.3f}", p_value(gain["p"])]
        )
    columns = ["neighbour", "passages", *MODEL_NAMES.values(), "difference", "p"]
    return Table(title=TITLES["attention_shares"], columns=columns, rows=rows)


def paint_attention(axes: "Axes", passage: pl.DataFrame, names: Sequence[str], model: str) -> None:
    """Attention of one passage to each of its queries and to itself, by the model `without` or `with` MGT.

    Args:
        passage: columns kind, `without`, `with`, `gate_without`, `gate_with`; a row a neighbour.
        names: what the neighbours are called.
    """
    for kind, name in CALLED.items():
        places = [place for place, found in enumerate(passage["kind"]) if found == kind]
        axes.barh(places, passage[model].gather(places), color=COLOURS[kind], label=name)
    axes.set(yticks=range(len(passage)), yticklabels=[name[:LONGEST] for name in names], xlabel="attention")
    axes.set(ylim=(len(passage) - 0.4, -0.6))
    axes.set_title(f"{MODEL_NAMES[model]}, gate {passage[f'gate_{model}'][0]:.3f}")
    axes.grid(visible=False, axis="y")


def paint_shares(axes: "Axes", shares: Shares) -> None:
    """Mean attention to one neighbour of each kind, without and with MGT, with 95% intervals over passages."""
    for place, (kind, found) in enumerate(shares.items()):
        for side, model in enumerate(MODELS):
            mean = found[model]
            error = [[mean["mean"] - mean["low"]], [mean["high"] - mean["mean"]]]
            hatch = "//" if model == "without" else None
            axes.bar(place + 0.4 * side, mean["mean"], 0.38, yerr=error, color=COLOURS[kind], hatch=hatch)
    names = [CALLED[kind].replace(" ", "\n", 1) for kind in shares]
    axes.set_xticks([place + 0.2 for place in range(len(shares))], names)
    axes.set(ylabel="attention to one neighbour", title="hatched: without MGT; plain: with MGT")
    axes.grid(visible=False, axis="x")
