"""How good systems are: the table of means and differences, the ceiling, and the figures of means and of recall."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from gnn_encoder.evaluation.ceiling import Ceiling
from gnn_encoder.evaluation.significance import Comparison, interval
from gnn_encoder.evaluation.values import Comparisons, Means
from gnn_encoder.pipeline.project import CEILING, REFERENCE, title_of
from gnn_encoder.presenting.figures import Panel, system_style, wrapped, write_png
from gnn_encoder.presenting.formats import NOTHING, comparison, count, p_value, points
from gnn_encoder.presenting.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RECALL = r"^(R|Success)@(\d+)$"


@dataclass(frozen=True, kw_only=True)
class Mean:
    """Mean of a measure over queries, in 0..1, and half the width of its 95% interval."""

    mean: float
    half: float


@dataclass(frozen=True, kw_only=True)
class Results:
    """Systems that were compared together on the queries of a split.

    Attributes:
        against_reference: comparisons with M_de.
        against_own: comparisons with the baselines of the systems' branches.
        sampled: whether only a sample of the split's queries was judged.
    """

    title: str
    split: str
    means: Means
    against_reference: Comparisons
    against_own: Comparisons
    sampled: bool = False


def means_of(values: pl.DataFrame) -> dict[str, dict[str, Mean]]:
    """Split -> system -> mean with its interval. `values`: of one measure, columns system, split, value."""
    found: dict[str, dict[str, Mean]] = {}
    for (split, system), part in values.group_by("split", "system", maintain_order=True):
        numbers = part["value"].to_numpy()
        low, high = interval(numbers)
        found.setdefault(str(split), {})[str(system)] = Mean(mean=float(numbers.mean()), half=(high - low) / 2)
    return found


def results_of(
    title: str,
    means: dict[str, Means],
    tested: dict[str, Comparisons],
    own: dict[str, Comparisons],
    *,
    sampled: bool = False,
) -> list[Results]:
    """One for each split of `means`, with comparisons with M_de (`tested`) and with own baselines."""
    return [
        Results(
            title=title_of(title),
            split=split,
            means=of,
            against_reference=tested.get(split, {}),
            against_own=own.get(split, {}),
            sampled=sampled,
        )
        for split, of in means.items()
    ]


HOW_TO_READ = (
    "A difference is a mean of unrounded values with its 95% interval; p is that of a paired t-test over queries after "
    "Holm's correction over all systems that were compared, and ▲ and ▼ mark p below 0.05. Intervals are over queries, "
    "with the seed held fixed."
)


def results_table(found: Results, tested: str) -> Table:
    """One row per system. The comparisons are of the measure `tested`; a column without comparisons is left out.

    Where a system's own baseline is M_de, the column of differences from M_de alone has the comparison.
    """
    columns = ["System", *next(iter(found.means.values()))]
    rows = [[title_of(name), *map(points, of.values())] for name, of in found.means.items()]
    of_reference = {name: one for name, one in found.against_reference.items() if one.baseline == REFERENCE}
    of_own = {
        name: one for name, one in found.against_own.items() if one.baseline != REFERENCE or name not in of_reference
    }
    reference = [comparison(of_reference.get(name)) for name in found.means]
    own = [_with_baseline(of_own.get(name)) for name in found.means]
    for name, cells in ((title_of(REFERENCE), reference), ("its baseline", own)):
        if set(cells) != {NOTHING}:
            columns.append(f"{tested} against {name}")
            rows = [[*row, cell] for row, cell in zip(rows, cells, strict=True)]
    title = f"{found.split.capitalize()} queries: {found.title}, points of 100"
    return Table(title=title, columns=columns, rows=rows)


def ceiling_table(found: Ceiling, split: str) -> Table:
    """One row per system: M_de first, the ceiling last, and between them the others with their share of the way."""
    rows = [[title_of(REFERENCE), points(found.base), "", ""]]
    for system, one in found.systems.items():
        share, low, high = (NOTHING if end is None else f"{end:.0%}" for end in (one.share, one.low, one.high))
        rows.append([title_of(system), points(one.mean), share, f"{low} to {high}"])
    rows += [[title_of(CEILING), points(found.ceiling), "", ""]]
    return Table(
        title=f"{split.capitalize()} queries: the way to {title_of(CEILING)}, points of 100",
        columns=["System", found.measure, "share of the way", "95% interval"],
        rows=rows,
        note=f"{count(found.queries)} queries; {NOTHING} where there is no bound",
    )


def judged_table(means: dict[str, dict[str, float]], compared: Comparisons) -> Table:
    """What `gnn-encoder evaluate` prints: one row per measure, in 0..1, and the comparison with a second run.

    Args:
        means: `value` of the run and, if there is a second one, `against` -> measure -> mean.
        compared: measure -> comparison with the second run; empty if there is none.
    """
    columns = ["measure", "run", *(["against", "difference", "95% interval", "p", "p (Holm)"] if compared else [])]
    rows = [[name, f"{value:.4f}"] for name, value in means["value"].items()]
    for row, c in zip(rows, compared.values(), strict=False):
        ends = f"{c.low:+.4f} to {c.high:+.4f}"
        row += [f"{means['against'][row[0]]:.4f}", f"{c.difference:+.4f}", ends, p_value(c.p), p_value(c.p_holm)]
    return Table(title="", columns=columns, rows=rows)


def write_quality(folder: Path, values: pl.DataFrame, means: dict[str, Means], measure: str) -> None:
    """Write measures and recall as CSV for `dvc plots`, and the figures of means and of recall, a panel per split.

    Args:
        values: columns system, split, qid, measure, value.
        means: split -> system -> measure -> mean in 0..1.
        measure: that of the figure of means.
    """
    folder.mkdir(parents=True, exist_ok=True)
    measures_of(means).write_csv(folder / "measures.csv")
    recall = recall_of(means)
    recall.write_csv(folder / "recall.csv")
    measured = means_of(values.filter(measure=measure))
    write_png(folder / "systems.png", [systems_panel(of, split, measure) for split, of in measured.items()])
    write_png(folder / "recall.png", [recall_panel(recall, split) for split in means])


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


def systems_panel(means: dict[str, Mean], split: str, measure: str) -> Panel:
    """Each system's mean of `measure` with its 95% interval, the first at the top."""

    def paint(axes: "Axes") -> None:
        for place, (system, mean) in enumerate(means.items()):
            axes.errorbar(100 * mean.mean, place, xerr=100 * mean.half, linestyle="", **system_style(system))
        axes.set(yticks=range(len(means)), yticklabels=map(wrapped, means))
        axes.set(xlabel=f"{measure} (points)", ylim=(len(means) - 0.4, -0.6))

    return Panel(title=f"{measure}, {split} queries", paint=paint, size=(5.0, 1 + 0.4 * len(means)))


def recall_panel(recall: pl.DataFrame, split: str) -> Panel:
    """R@k (or Success@k) against k, one line per system. `recall`: as `recall_of` has it."""
    recall = recall.filter(split=split)

    def paint(axes: "Axes") -> None:
        for (system,), rows in recall.group_by("system", maintain_order=True):
            style = system_style(str(system))
            axes.plot(rows["k"], 100 * rows["recall"], markersize=4, label=wrapped(str(system)), **style)
        depths = recall["k"].unique().sort().to_list()
        axes.set(xlabel="k", ylabel=f"{next(iter(recall['measure']), 'R')}@k (points)", xscale="log")
        axes.set_xticks(depths, [str(depth) for depth in depths])
        axes.minorticks_off()

    return Panel(title=f"Recall, {split} queries", paint=paint, size=(5.0, 5.2))


def _with_baseline(found: Comparison | None) -> str:
    return f"{comparison(found)} ({title_of(found.baseline)})" if found else NOTHING
