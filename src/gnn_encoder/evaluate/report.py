"""What shows a branch's results: its figures, and one HTML file with the tables and figures of all branches."""

import base64
import re
import textwrap
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from gnn_encoder.base.tables import SPLITS, count_rows
from gnn_encoder.evaluate import tables
from gnn_encoder.evaluate.measures import Means, interval, parse, parts_by
from gnn_encoder.evaluate.slices import Sliced, attention_table, cases_table, slices_table, won_and_lost_table
from gnn_encoder.evaluate.tables import BETTER, WORSE, Table
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.project import MAIN, registry, title_of

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
    "lines.linewidth": 1.6,
    "errorbar.capsize": 3,
}
# A system has the same colour and mark in every figure.
COLOURS = "7d8590 b07d2b 2f7fd1 2b9a9a d2492a 8c6bd6 b04fc0 6f9a2e 2e9e5b d6457e a8703f".split()
MARKS = "os^vDPX<>*hpd"  # not as many as colours, so that no two systems share both
LINE = 22  # most characters of a line beside an axis


def write_figures(folder: Path, values: pl.DataFrame, means: dict[str, Means], measure: str) -> None:
    """Write the figures of `measure` and of recall, a panel a split."""
    folder.mkdir(parents=True, exist_ok=True)
    recall, tested = recall_of(means), values.filter(measure=measure)
    bars = [(f"{measure}, {split} queries", partial(_paint_means, tested.filter(split=split))) for split in means]
    lines = [(f"Recall, {split} queries", partial(_paint_recall, recall.filter(split=split))) for split in means]
    height = 1 + 0.4 * max(map(len, means.values()))  # inches
    _save(folder / "systems.png", bars, height)
    _save(folder / "recall.png", lines, height)


def recall_of(means: dict[str, Means]) -> pl.DataFrame:
    """One row per system, split and k of recall R@k, or of Success@k if that has more k, smallest k first."""
    of = [(system, split, values) for split, systems in means.items() for system, values in systems.items()]
    rows = [
        (system, split, found[1], int(found[2]), value)
        for system, split, values in of
        for measure, value in values.items()
        if (found := re.match(RECALL, measure))
    ]
    table = pl.DataFrame(rows, schema=["system", "split", "measure", "k", "recall"], orient="row")
    kept = table.filter(measure=max("R", "Success", key=lambda one: table.filter(measure=one)["k"].n_unique()))
    return kept.select(pl.all().sort_by("k").over("split", "system", mapping_strategy="explode"))


def system_style(system: str) -> dict[str, Any]:
    """A system's colour and mark, as keyword arguments of matplotlib."""
    place = list(registry().systems).index(system)
    return {"color": f"#{COLOURS[place % len(COLOURS)]}", "marker": MARKS[place % len(MARKS)]}


def _save(path: Path, panels: Sequence[tuple[str, Callable[["Axes"], None]]], height: float) -> None:
    """Save panels, their titles and what paints them, side by side."""
    # Drawn without pyplot: no window system, no global state, no font cache of interactive backends.
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.0 * len(panels), height), layout="constrained")
        FigureCanvasAgg(figure)
        for axes, (title, paint) in zip(figure.subplots(1, len(panels), squeeze=False).flat, panels, strict=True):
            paint(axes)
            axes.set_title(title, wrap=True)
        figure.savefig(path, dpi=120, metadata={"Software": None})  # the same drawing gives the same bytes


def _paint_means(values: pl.DataFrame, axes: "Axes") -> None:
    """Each system's mean with its 95% interval. `values`: columns system, measure, value."""
    parts = parts_by("system", values)
    for place, (system, rows) in enumerate(parts.items()):
        of = rows["value"].to_numpy()
        low, high = interval(of)
        axes.errorbar(100 * of.mean(), place, xerr=50 * (high - low), linestyle="", **system_style(system))
    _name_rows(axes, parts, values["measure"][0])


def _paint_recall(recall: pl.DataFrame, axes: "Axes") -> None:
    """Each system's R@k (or Success@k), a mark for each k. `recall`: as `recall_of` has it."""
    parts = parts_by("system", recall)
    for place, (system, rows) in enumerate(parts.items()):
        axes.plot(100 * rows["recall"], [place] * len(rows), markersize=5, linewidth=0.6, **system_style(system))
    depths = recall["k"].unique().sort()
    _name_rows(axes, parts, f"{next(iter(recall['measure']), 'R')}@k, k = {', '.join(map(str, depths))}")


def _name_rows(axes: "Axes", systems: Collection[str], measure: str) -> None:
    """A row for each system, the first at the top, and what the marks measure."""
    axes.set(yticks=range(len(systems)), yticklabels=[textwrap.fill(title_of(system), LINE) for system in systems])
    axes.set(xlabel=f"{measure} (points)", ylim=(len(systems) - 0.4, -0.6))


class Part(NamedTuple):
    """The content under one heading; without tables and figures, the page says that they are not made yet."""

    title: str
    tables: list[Table]
    notes: Sequence[str] = ()
    figures: Sequence[Path] = ()


def render(params: Params) -> str:
    """The whole page as HTML. The same artifacts give the same text."""
    import jinja2

    templates = jinja2.PackageLoader("gnn_encoder.evaluate")
    environment = jinja2.Environment(loader=templates, autoescape=True, undefined=jinja2.StrictUndefined)
    environment.trim_blocks = environment.lstrip_blocks = True
    environment.filters["base64"] = lambda figure: base64.b64encode(figure.read_bytes()).decode()
    environment.globals["marks"] = {BETTER: "better", WORSE: "worse"}
    branches = registry().branches
    shown = next((one for one in branches.values() if tables.are_ours(one.systems)), branches[MAIN])
    told = tables.of_other_data(params, shown.baseline)
    asked = (f"{count_rows(project.queries(split)):,} {split}" for split in SPLITS)
    data = told or f"{params.data.source}: {count_rows(project.PASSAGES):,} passages; queries: {', '.join(asked)}"
    facts = {"Data": data, "Base model": params.encoder.model, "Seed": str(params.seed)}
    text = Path("params.yaml").read_text(encoding="utf-8")
    return environment.get_template("report.html").render(facts=facts, parts=page_parts(params), params=text)


def page_parts(params: Params) -> list[Part]:
    """What the page shows of what was measured, and of what explains it."""
    (tested,) = parse([params.evaluate.significance])
    branches, claim = registry().branches, tables.read_claim()
    own = [name for name, branch in branches.items() if tables.are_ours(branch.systems)]
    figures = [project.PLOTS / branch / name for name in ("systems.png", "recall.png") for branch in own]
    sliced = {name: tables.read_record(project.METRICS / name / "slices.json", dict[str, Sliced]) or {} for name in own}
    told = tables.read_record(project.INFORMED / "informed.json", dict[str, Any])
    informing = [attention_table(told["attention"]), cases_table(told["cases"], told["counts"])] if told else []
    results = [table for branch in branches for table in tables.branch_tables(branch, tested)]
    claimed = tables.claim_sentences(claim) if claim else []
    return [
        Part("Results", results, notes=claimed, figures=[figure for figure in figures if figure.is_file()]),
        Part("Slices", [slices_table(name, of[one], one) for name, of in sliced.items() for one in of]),
        Part("What informs passages", informing),
        Part("Won and lost", [one for name in branches if (one := won_and_lost_table(name, tested))]),
    ]
