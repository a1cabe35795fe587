"""The report: one HTML file with the tables of a run, the figures that its stages drew, and queries won and lost."""

import base64
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
from markupsafe import Markup
from pydantic import TypeAdapter

from gnn_encoder.evaluation.ceiling import Ceiling
from gnn_encoder.evaluation.costs import Costs
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.slices import Sliced
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.systems import registry, title_of
from gnn_encoder.presenting import formats
from gnn_encoder.presenting.compared import costs_table, views_table
from gnn_encoder.presenting.conclusions import advice, choices_table, claim_sentence
from gnn_encoder.presenting.paper_evidence import TITLES, cases_table, evidence_tables
from gnn_encoder.presenting.provenance import facts, stages_table, versions
from gnn_encoder.presenting.quality import ceiling_table, results_table
from gnn_encoder.presenting.slice_table import split_table
from gnn_encoder.presenting.stored import read_choices, read_claim, read_json, read_measured, read_record, read_results
from gnn_encoder.presenting.tables import Table, table_of
from gnn_encoder.presenting.won_and_lost import won_and_lost

ELSEWHERE = {*project.JUDGED, "significance", "baselines", "costs", "slices", "claim"}  # in other sections
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
    statistics = read_json(project.PREPARED / "statistics.json") or {}
    compared = [won_and_lost(branch, tested, params.evaluate, params.report) for branch in registry().branches]
    sections = [results(tested), slices(), costs(), pair(), dual_cross(), evidence(tested)]
    sections += [
        Section(title="Data", command="dvc repro", tables=_table(statistics, "The prepared tables")),
        Section(title="Stages", command="dvc repro", tables=[stages_table()]),
    ]
    return _template().render(
        facts=facts(params, statistics),
        sections=sections,
        compared=[one for one in compared if one],
        measure=tested,
        params=path.read_text(encoding="utf-8"),
        versions=versions(),
    )


def results(tested: str) -> Section:
    """The tables of all systems, or of branches that ran alone; the claim; what was chosen on dev; the figures."""
    claim, choices, figures = read_claim(), read_choices(), list[Path]()
    tables = [results_table(one, tested) for one in read_results(read_measured())]
    for name in ("systems.png", "recall.png"):
        every = _drawn(project.PLOTS / name)  # after `compare`
        figures += every or _drawn(*(project.PLOTS / branch / name for branch in registry().branches))
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
    for branch in registry().branches:
        sliced = read_record(project.METRICS / branch / "slices.json", dict[str, Sliced]) or {}
        tables += [split_table(branch, of, split) for split, of in reversed(sliced.items())]
    return Section(title="Slices", command="dvc repro", tables=tables)


def costs() -> Section:
    """The costs of each system as `compare` measured them, and quality against latency."""
    measured = read_record(project.METRICS / "costs.json", dict[str, Costs])
    tables = [costs_table(measured)] if measured else []
    return Section(title="Costs", command=COMPARISON, tables=tables, figures=_drawn(project.PLOTS / "costs.png"))


def pair() -> Section:
    """PAIR's similarities and pseudo-labels."""
    tables = _table(read_json(project.PAIR_LABELS / "statistics.json"), "Pseudo-labels")
    figures = _drawn(project.PLOTS / "pair" / "similarity.png")
    return Section(title="PAIR", command="dvc repro pipelines/pair/dvc.yaml", tables=tables, figures=figures)


def dual_cross() -> Section:
    """Dual-Cross-Encoder's generated queries and its views."""
    title = "Generated queries compared with the dev queries"
    tables = _table(read_json(project.GENERATED / "quality.json"), title)
    curves = [path for name in registry().of_kind("views") if (path := project.COMPARISON / f"{name}.csv").is_file()]
    tables += [views_table(pl.read_csv(curve)) for curve in curves]
    return Section(title="Dual-Cross-Encoder", command="dvc repro pipelines/dual_cross/dvc.yaml", tables=tables)


def evidence(tested: str) -> Section:
    """The papers' tables and figures in their order, then all JSON files of metrics/ that no other section shows."""
    folder, tables = project.EVIDENCE.name, list[Table]()
    ours = {path.stem: path for path in sorted((project.METRICS / folder).glob("*.json"))}
    for name in sorted(ours, key=[*TITLES, *ours].index):
        tables += evidence_tables(name, read_json(ours[name]), tested)
    if cases := read_json(project.EVIDENCE / "cases.json"):
        tables.append(cases_table(cases))
    for path in sorted(project.METRICS.rglob("*.json")):
        if path.stem not in ELSEWHERE and path.parent.name != folder:
            tables += other_tables(path)
    figures = _drawn(*sorted((project.PLOTS / folder).glob("*.png")))
    return Section(title="Evidence", command="dvc repro pipelines/evidence/dvc.yaml", tables=tables, figures=figures)


def other_tables(path: Path) -> list[Table]:
    """The tables of a file of metrics/ that is no evidence: the ceiling, or any other values."""
    value = read_json(path)
    if path.stem == "ceiling":
        ceilings = TypeAdapter(dict[str, Ceiling]).validate_python(value)
        return [ceiling_table(one, split) for split, one in reversed(ceilings.items())]
    return [table_of(value, ", ".join(path.relative_to(project.METRICS).with_suffix("").parts).replace("_", " "))]


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
    environment.filters |= {"count": formats.count, "title_of": title_of, "embedded": _embedded}
    environment.globals["marks"] = {formats.BETTER: "better", formats.WORSE: "worse"}
    environment.globals["style"] = Markup(style.read_text(encoding="utf-8"))
    return environment.get_template("report.html")


def _embedded(picture: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode()}"
