"""The report: one HTML file with the tables of a run, the figures that its stages drew, and queries won and lost."""

import base64
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

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
from gnn_encoder.presenting.branch_figures import views_table
from gnn_encoder.presenting.conclusions import advice, choices_table, claim_sentence
from gnn_encoder.presenting.cost_table import costs_table
from gnn_encoder.presenting.paper_evidence import TITLES, cases_table, evidence_tables
from gnn_encoder.presenting.provenance import facts, stages_table, versions
from gnn_encoder.presenting.quality import ceiling_table, results_table
from gnn_encoder.presenting.slice_table import split_table
from gnn_encoder.presenting.stored import (
    histories,
    read_choices,
    read_claim,
    read_json,
    read_measured,
    read_record,
    read_results,
)
from gnn_encoder.presenting.tables import Table, table_of
from gnn_encoder.presenting.won_and_lost import won_and_lost

ELSEWHERE = {*project.JUDGED, "significance", "baselines", "costs", "slices", "claim"}  # in other sections
CURVES = "The loss of every optimiser step, and RR@10 of the sampled dev queries during training."


@dataclass(kw_only=True)
class Section:
    """The content under one heading.

    Attributes:
        missing: what has not been made, and the command that makes it.
    """

    title: str
    notes: list[str] = field(default_factory=list)
    missing: list[tuple[str, str]] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: list[Path] = field(default_factory=list)

    def need(self, found: object, what: str, command: str) -> None:
        """Say what is missing unless it was `found`."""
        if not found:
            self.missing.append((what, command))

    def show(self, path: Path) -> None:
        """Add a figure that a stage drew, if it did."""
        if path.is_file():
            self.figures.append(path)


def render(params: Params, path: Path = Path("params.yaml")) -> str:
    """The whole page as HTML. The same artifacts give the same text."""
    (tested,) = parse([params.evaluate.significance])
    statistics = read_json(project.PREPARED / "statistics.json") or {}
    compared = [won_and_lost(branch, tested, params.evaluate, params.report) for branch in registry().branches]
    sections = [
        results(tested),
        slices(),
        costs(),
        training(),
        pair(),
        dual_cross(),
        evidence(tested),
        Section(title="Data", tables=[table_of(statistics, "The prepared tables")] if statistics else []),
        Section(title="Stages", tables=[stages_table()]),
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
    found = Section(title="Results")
    tables, claim, choices = read_results(read_measured()), read_claim(), read_choices()
    found.need(tables, "No system has been evaluated yet", "dvc repro")
    found.tables = [results_table(one, tested) for one in tables] + ([choices_table(choices)] if choices else [])
    found.notes = [claim_sentence(claim), advice(claim)] if claim else []
    for name in ("systems.png", "recall.png"):
        every = project.PLOTS / name  # after `compare`
        for path in [every] if every.is_file() else [project.PLOTS / branch / name for branch in registry().branches]:
            found.show(path)
    return found


def slices() -> Section:
    """The tables of each branch, test before dev."""
    found = Section(title="Slices")
    for branch in registry().branches:
        sliced = read_record(project.METRICS / branch / "slices.json", dict[str, Sliced]) or {}
        found.tables += [split_table(branch, of, split) for split, of in reversed(sliced.items())]
    found.need(found.tables, "No slices have been evaluated", "dvc repro")
    return found


def costs() -> Section:
    """The costs of each system as `compare` measured them, and quality against latency."""
    measured = read_record(project.METRICS / "costs.json", dict[str, Costs])
    found = Section(title="Costs", tables=[costs_table(measured)] if measured else [])
    found.need(measured, "Costs have not been measured", "dvc repro pipelines/comparison/dvc.yaml")
    found.show(project.PLOTS / "costs.png")
    return found


def training() -> Section:
    """Every learning curve."""
    found = Section(title="Training", notes=[CURVES])
    found.need(histories(), "No model has been trained", "dvc repro")
    found.show(project.PLOTS / "training.png")
    return found


def pair() -> Section:
    """PAIR's similarities and pseudo-labels."""
    labels = read_json(project.PAIR_LABELS / "statistics.json")
    found = Section(title="PAIR", tables=[table_of(labels, "Pseudo-labels")] if labels else [])
    found.show(project.PLOTS / "pair" / "similarity.png")
    found.need(found.figures, "The similarities have not been measured", "dvc repro pipelines/comparison/dvc.yaml")
    found.need(labels, "There are no pseudo-labels", "dvc repro pipelines/pair/dvc.yaml")
    return found


def dual_cross() -> Section:
    """Dual-Cross-Encoder's generated queries and its views."""
    quality, title = read_json(project.GENERATED / "quality.json"), "Generated queries compared with the dev queries"
    curves = [path for name in registry().of_kind("views") if (path := project.COMPARISON / f"{name}.csv").is_file()]
    found = Section(title="Dual-Cross-Encoder", tables=[table_of(quality, title)] if quality else [])
    found.tables += [views_table(pl.read_csv(curve)) for curve in curves]
    found.need(quality, "No queries have been generated", "dvc repro pipelines/dual_cross/dvc.yaml")
    found.need(curves, "Numbers of views have not been compared", "dvc repro pipelines/comparison/dvc.yaml")
    return found


def evidence(tested: str) -> Section:
    """The papers' tables and figures in their order, then all JSON files of metrics/ that no other section shows."""
    found, folder = Section(title="Evidence"), project.EVIDENCE.name
    ours = {path.stem: path for path in sorted((project.METRICS / folder).glob("*.json"))}
    for name in sorted(ours, key=[*TITLES, *ours].index):
        found.tables += evidence_tables(name, read_json(ours[name]), tested)
    if cases := read_json(project.EVIDENCE / "cases.json"):
        found.tables.append(cases_table(cases))
    command = "dvc repro pipelines/evidence/dvc.yaml"
    found.need(found.tables, "The papers’ tables and figures have not been made", command)
    for path in sorted(project.METRICS.rglob("*.json")):
        if path.stem not in ELSEWHERE and path.parent.name != folder:
            found.tables += other_tables(path)
    for path in sorted((project.PLOTS / folder).glob("*.png")):
        found.show(path)
    return found


def other_tables(path: Path) -> list[Table]:
    """The tables of a file of metrics/ that is no evidence: the ceiling, or any other values."""
    value = read_json(path)
    if path.stem == "ceiling":
        ceilings = TypeAdapter(dict[str, Ceiling]).validate_python(value)
        return [ceiling_table(one, split) for split, one in reversed(ceilings.items())]
    return [table_of(value, ", ".join(path.relative_to(project.METRICS).with_suffix("").parts).replace("_", " "))]


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
