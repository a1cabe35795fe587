"""Rendering the report's page from the artifacts that exist."""

from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from gnn_encoder.evaluation.measures import parse
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.presenting import formats
from gnn_encoder.presenting.artifacts import Missing, read_json
from gnn_encoder.presenting.blocks import blocks
from gnn_encoder.presenting.choices import choices_table, read_choices, tried_table
from gnn_encoder.presenting.claim import advice, claim_sentence, read_claim
from gnn_encoder.presenting.compared import read_measured, read_results
from gnn_encoder.presenting.dag import draw_dag
from gnn_encoder.presenting.lanes import arrange
from gnn_encoder.presenting.names import name_of
from gnn_encoder.presenting.page import evidence, facts, machine, models, quality, slices
from gnn_encoder.presenting.page.queries import View, read_view
from gnn_encoder.presenting.pipeline import read_pipeline, runs_table, stages_table
from gnn_encoder.presenting.results import results_table

TEMPLATES = files("gnn_encoder.presenting.page") / "templates"


def render(params: Params, path: Path = Path("params.yaml")) -> str:
    """The whole page as HTML. The same artifacts give the same text."""
    measured = read_measured()
    (tested,) = parse([params.evaluate.significance])
    pipeline = read_pipeline()
    view = read_view(params.evaluate, params.report)
    claim, choices = read_claim(), read_choices()
    results, statistics = read_results(measured), read_json(project.PREPARED / "statistics.json")
    return (
        _environment()
        .get_template("report.html")
        .render(
            facts=facts.facts(params),
            versions=machine.versions(),
            params=path.read_text(encoding="utf-8"),
            tested=tested,
            results=results if isinstance(results, Missing) else [(one, results_table(one, tested)) for one in results],
            claim=[claim_sentence(claim), advice(claim)] if claim else [],
            chosen=[choices_table(choices), tried_table(choices)] if choices else [],
            quality=quality.quality(measured, params.evaluate),
            slices=slices.slices(),
            costs=quality.costs(measured, params.evaluate),
            training=models.training(),
            pair_section=models.pair(),
            dual_cross=models.dual_cross(params.evaluate),
            evidence=evidence.evidence(params.evaluate),
            data=blocks(statistics, "The prepared tables") if statistics else [],
            dag=draw_dag(arrange(pipeline)),
            stages=[stages_table(pipeline), runs_table(pipeline)],
            view=view,
            embedded=_embedded(view) if view else None,
        )
    )


def _environment() -> jinja2.Environment:
    """The Jinja environment. It escapes all text but `Markup`, since passages and queries may hold HTML."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("gnn_encoder.presenting.page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": formats.count, "name_of": name_of}
    environment.globals["marks"] = {formats.BETTER: "better", formats.WORSE: "worse"}
    environment.tests["missing"] = lambda value: isinstance(value, Missing)
    environment.globals["source"] = lambda name: Markup((TEMPLATES / name).read_text(encoding="utf-8"))
    return environment


def _embedded(view: View) -> Markup:
    """The view as JSON, escaped so that no text in it can end the script element around it."""
    content: dict[str, Any] = asdict(view)
    if view.first:
        split, pair = view.first
        content["start"] = {"split": view.splits.index(split), "first": pair.first, "second": pair.second}
    return htmlsafe_json_dumps(content, separators=(",", ":"), ensure_ascii=False)
