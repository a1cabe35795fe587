"""The report: one HTML file with the tables of a run and the figures that its stages drew."""

import base64
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
from markupsafe import Markup

from gnn_encoder.evaluation.ceiling import Ceiling
from gnn_encoder.evaluation.costs import Costs
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.slices import Sliced
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.project import CEILING, registry, title_of
from gnn_encoder.presenting import formats
from gnn_encoder.presenting.compared import costs_table, diversity_table, views_table
from gnn_encoder.presenting.conclusions import advice, choices_table, claim_sentence
from gnn_encoder.presenting.provenance import facts, stages_table, versions
from gnn_encoder.presenting.quality import ceiling_table, results_table
from gnn_encoder.presenting.slice_table import split_table
from gnn_encoder.presenting.stored import (
    are_ours,
    is_ours,
    our_branches,
    read_choices,
    read_claim,
    read_record,
    read_results,
)
from gnn_encoder.presenting.tables import Table, table_of
from gnn_encoder.presenting.won_and_lost import won_and_lost_table

COMPARISON = "dvc repro pipelines/comparison/dvc.yaml"


@dataclass(frozen=True, kw_only=True)
class Section:
    """The content under one heading; without tables and figures, the page names the command that makes them."""

    title: str
    command: str
    notes: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: list[Path] = field(default_factory=list)


def render(params: Params, path: Path = Path("params.yaml")) -> str:
    """The whole page as HTML. The same artifacts give the same text."""
    (tested,) = parse([params.evaluate.significance])
    statistics = read_record(project.PREPARED / "statistics.json", dict[str, Any]) or {}
    compared = [won_and_lost_table(branch, tested) for branch in registry().branches]
    sections = [
        *(results(tested), slices(), costs(), pair(), dual_cross()),
        Section(title="Won and lost", command="dvc repro", tables=[one for one in compared if one]),
        Section(title="Data", command="dvc repro", tables=_table(statistics, "The prepared tables")),
        Section(title="Stages", command="dvc repro", tables=[stages_table()]),
    ]
    return _template().render(
        facts=facts(params, statistics),
        sections=sections,
        params=path.read_text(encoding="utf-8"),
        versions=versions(),
    )


def results(tested: str) -> Section:
    """The tables of systems, the claim, the ways to the ceiling, what was chosen on dev, and the figures."""
    claim, choices, figures = read_claim(), read_choices(), list[Path]()
    tables = [results_table(one, tested) for one in read_results()]
    of_ceiling = (project.METRICS / CEILING / "ceiling.json", project.METRICS / "ceiling.json")
    for path in of_ceiling if are_ours([CEILING]) else ():
        ceilings = read_record(path, dict[str, Ceiling]) or {}
        tables += [ceiling_table(one, split) for split, one in reversed(ceilings.items())]
    compared, own = is_ours(project.COMPARISON), our_branches()
    for name in ("systems.png", "recall.png"):
        every = _drawn(project.PLOTS / name) if compared else []
        figures += every or _drawn(*(project.PLOTS / branch / name for branch in own))
    return Section(
        title="Results",
        command="dvc repro",
        notes=[claim_sentence(claim), advice(claim)] if claim else [],
        tables=tables + ([choices_table(choices)] if choices else []),
        figures=figures,
    )


def slices() -> Section:
    """The tables of each branch, test before dev."""
    tables = []
    for branch in our_branches():
        sliced = read_record(project.METRICS / branch / "slices.json", dict[str, Sliced]) or {}
        tables += [split_table(branch, of, split) for split, of in reversed(sliced.items())]
    return Section(title="Slices", command="dvc repro", tables=tables)


def costs() -> Section:
    """The costs of each system as `compare` measured them, quality against latency, and what reranking costs."""
    tables, figures = list[Table](), list[Path]()
    if is_ours(project.COMPARISON):
        measured = read_record(project.METRICS / "costs.json", dict[str, Costs])
        tables += [costs_table(measured)] if measured else []
        figures += _drawn(project.PLOTS / "costs.png")
    if are_ours([CEILING]):
        latency = read_record(project.METRICS / CEILING / "latency.json", dict[str, Any])
        tables += _table(latency, title_of(CEILING))
    return Section(title="Costs", command=COMPARISON, tables=tables, figures=figures)


def pair() -> Section:
    """PAIR's similarities and pseudo-labels."""
    tables = _table(read_record(project.PAIR_LABELS / "statistics.json", dict[str, Any]), "Pseudo-labels")
    figures = _drawn(project.PLOTS / "pair" / "similarity.png")
    return Section(title="PAIR", command="dvc repro pipelines/pair/dvc.yaml", tables=tables, figures=figures)


def dual_cross() -> Section:
    """Dual-Cross-Encoder's generated queries and its views."""
    title = "Generated queries compared with the dev queries"
    tables = _table(read_record(project.GENERATED / "quality.json", dict[str, Any]), title)
    for name, table in (("views", views_table), ("diversity", diversity_table)):
        files = (project.COMPARISON / system / f"{name}.csv" for system in registry().of_kind("views"))
        tables += [table(pl.read_csv(file)) for file in files if file.is_file()]
    return Section(title="Dual-Cross-Encoder", command="dvc repro pipelines/dual_cross/dvc.yaml", tables=tables)


def _table(value: Any, title: str) -> list[Table]:
    """The table of a JSON object, if there is one."""
    return [table_of(value, title)] if value else []


def _drawn(*paths: Path) -> list[Path]:
    """The figures that stages have drawn."""
    return [path for path in paths if path.is_file()]


def _template() -> jinja2.Template:
    """The page's template. It escapes all text but `Markup`, since passages and queries may hold HTML."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("gnn_encoder.presenting"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = files("gnn_encoder.presenting") / "templates" / "style.css"
    environment.filters |= {"embedded": _embedded}
    environment.globals["marks"] = {formats.BETTER: "better", formats.WORSE: "worse"}
    environment.globals["style"] = Markup(style.read_text(encoding="utf-8"))
    return environment.get_template("report.html")


def _embedded(picture: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode()}"
