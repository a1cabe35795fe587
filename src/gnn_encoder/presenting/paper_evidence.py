"""The GNN-encoder paper's tables and figures: ablations, sweeps, attention, times, cases (Tables 3-5, Figures 2-4)."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from pydantic import TypeAdapter

from gnn_encoder.evidence.params import ABLATIONS, BETA, ITSELF, LABELLED, MODELS, OTHER, POTENTIAL, K
from gnn_encoder.evidence.summary import SeedMean, Summary
from gnn_encoder.pipeline.systems import title_of
from gnn_encoder.presenting.figures import Panel
from gnn_encoder.presenting.formats import NOTHING, comparison, p_value, point_range, points, shortened
from gnn_encoder.presenting.tables import Table, table_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# File name -> title, in the order in which they are shown.
TITLES = {
    "ablations": "Ablations (GNN-encoder, Table 3)",
    "k": "Passages a query (GNN-encoder, Figure 3)",
    "beta": "Share of the queries masked (GNN-encoder, Figure 4)",
    "attention": "Attention to a passage's queries (GNN-encoder, Figure 2)",
    "times": "Encoding times (GNN-encoder, Table 4)",
    "cases": "Queries won and lost at rank 1",
}
LABELS = {ABLATIONS: "System", K: "passages a query", BETA: "beta"}
# Neighbours of a passage: their names, and their colours, red and blue as in the paper's Figure 2.
CALLED = {
    LABELLED: "labelled",
    POTENTIAL: "potentially relevant",
    OTHER: "other query",
    ITSELF: "the passage itself",
}
COLOURS = {LABELLED: "tab:red", POTENTIAL: "tab:blue", OTHER: "0.65", ITSELF: "0.85"}
MODEL_NAMES = {"without": "without MGT", "with": "with MGT"}
QUERY, TEXT = 60, 300  # most characters of a query beside an axis, and of a text in a table
HEARD = 3  # most training queries that are shown of a case


def evidence_tables(name: str, value: Any, tested: str) -> list[Table]:
    """The tables of a file `name`.json of metrics/evidence/."""
    if name in LABELS:
        return list(summary_tables(TypeAdapter(dict[str, Summary]).validate_python(value), name, tested))
    own = {"attention": attention_table, "times": times_table}
    return [own[name](value) if name in own else table_of(value, TITLES[name])]


def summary_tables(found: dict[str, Summary], kind: str, tested: str) -> Iterator[Table]:
    """One table per split, test first, with one row per system.

    Its columns are the means of all measures in points; of the measure `tested` also the interval and the spread over
    seeds; and the differences from the baselines.
    """
    for split, summary in reversed(found.items()):
        if tested not in summary.means:  # of an earlier choice of measures
            continue
        against = [f"against {title_of(baseline)}" for baseline in summary.against]
        yield Table(
            title=f"{TITLES[kind]}, {split} queries, points of 100",
            columns=[LABELS[kind], *summary.means, f"{tested}, 95%", f"{tested}, seeds", *against],
            rows=[_summary_row(system, mean, summary) for system, mean in summary.means[tested].items()],
        )


def sweep_panels(found: dict[str, Summary], kind: str) -> list[Panel]:
    """One panel per measure: for each split a line with 95% intervals over queries, and small dots for single seeds.

    Args:
        found: split -> summary; a system's name is its number on the x-axis.
    """

    def panel(measure: str) -> Panel:
        means = {split: summary.means[measure] for split, summary in found.items()}
        return Panel(title=measure, paint=lambda axes: _paint_sweep(axes, means, kind), size=(4.2, 3.8))

    return [panel(measure) for measure in next(iter(found.values())).means]


def _paint_sweep(axes: "Axes", means: dict[str, dict[str, SeedMean]], kind: str) -> None:
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


def attention_table(shares: dict[str, dict[str, dict[str, Any]]]) -> Table:
    """Mean attention to one neighbour of each kind, one row per kind, as `attention_by_kind.shares` has it."""
    rows = []
    for kind, found in shares.items():
        means = [f"{found[m]['mean']:.3f} [{found[m]['low']:.3f}, {found[m]['high']:.3f}]" for m in MODELS]
        gain = found["difference"]
        rows.append(
            [CALLED[kind], str(found["with"]["passages"]), *means, f"{gain['difference']:+.3f}", p_value(gain["p"])]
        )
    columns = ["neighbour", "passages", *MODEL_NAMES.values(), "difference", "p"]
    return Table(title="Mean attention with and without MGT", columns=columns, rows=rows)


def attention_panels(passages: Sequence[pl.DataFrame], names: Sequence[Sequence[str]]) -> list[Panel]:
    """Attention of passages to each of their queries and to themselves: two panels each, without and with MGT.

    Args:
        passages: columns kind, `without`, `with`, `gate_without`, `gate_with`; one row per neighbour.
        names: labels of the neighbours.
    """
    panels = [
        Panel(
            title=f"{MODEL_NAMES[model]}, gate {rows[f'gate_{model}'][0]:.3f}",
            paint=partial(paint_attention, kinds=rows["kind"], attention=rows[model], names=labels),
            size=(6.0, max(2.4, 0.3 * len(labels) + 0.9)),
        )
        for rows, labels in zip(passages, names, strict=True)
        for model in MODELS
    ]
    nothing = "no passage has labelled and potentially relevant queries"
    return panels or [Panel(title=nothing, paint=lambda axes: axes.set_axis_off(), size=(6.0, 2.4))]


def paint_attention(axes: "Axes", kinds: pl.Series, attention: pl.Series, names: Sequence[str]) -> None:
    """Draw one bar per neighbour, in the colour of its kind."""
    for kind, name in CALLED.items():
        places = [place for place, found in enumerate(kinds) if found == kind]
        axes.barh(places, attention.gather(places), color=COLOURS[kind], label=name)
    axes.set(yticks=range(len(names)), yticklabels=[shortened(name, QUERY) for name in names], xlabel="attention")
    axes.set(ylim=(len(names) - 0.4, -0.6))
    axes.grid(visible=False, axis="y")


def times_table(times: dict[str, Any]) -> Table:
    """Milliseconds per passage and per query, with the machine as note. `times`: as `evidence` measured them."""
    rows = [
        [title_of(system), f"{row['ms_a_passage']:.3f}", f"{row['ms_a_question']:.2f}"]
        for system, row in times["systems"].items()
    ]
    machine = "; ".join(f"{name.replace('_', ' ')}: {value}" for name, value in times["machine"].items())
    return Table(title=TITLES["times"], columns=["System", "ms a passage", "ms a query"], rows=rows, note=machine)


def cases_table(cases: list[dict[str, Any]]) -> Table:
    """One row per case: the dev query, the passage, and the training queries that informed the passage most."""
    rows = [
        [
            shortened(case["query"], TEXT),
            str(case["rank_of_dual_encoder"] or f"> {case['depth']}"),
            "; ".join(map(_heard, case["informed_by"][:HEARD])) or NOTHING,
            NOTHING if case["gate"] is None else f"{case['gate']:.3f}",
            shortened(case["passage"], TEXT),
        ]
        for case in cases
    ]
    columns = ["dev query", "rank with M_de", "training queries heard, with attention", "gate", "passage"]
    return Table(title="Cases (GNN-encoder, Table 5)", columns=columns, rows=rows)


def _summary_row(system: str, mean: SeedMean, summary: Summary) -> list[str]:
    means = [points(of[system].mean) for of in summary.means.values()]
    seeds = point_range(min(mean.seeds), max(mean.seeds))
    against = [comparison(of.get(system)) for of in summary.against.values()]
    return [title_of(system), *means, point_range(mean.low, mean.high), seeds, *against]


def _heard(one: dict[str, Any]) -> str:
    return f"{one['query']} ({one['attention']:.2f}{', labelled' if one['labelled'] else ''})"
