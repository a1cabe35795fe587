"""The report's page, from the artifacts that are there."""

from dataclasses import asdict
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from gnn_encoder.core import project
from gnn_encoder.core.params import Params
from gnn_encoder.report import evidence, facts, formats, machine, models, quality
from gnn_encoder.report.artifacts import Missing, read_json
from gnn_encoder.report.dag import draw_dag
from gnn_encoder.report.lanes import arrange
from gnn_encoder.report.names import name_of
from gnn_encoder.report.pipeline import Stage, read_pipeline
from gnn_encoder.report.questions import View, read_view
from gnn_encoder.report.results import read_measured, result_tables

TEMPLATES = files("gnn_encoder.report") / "templates"


def render(params: Params, path: Path = Path("params.yaml")) -> str:
    """The whole page: the same artifacts give the same text."""
    measured = read_measured()
    pipeline = read_pipeline()
    view = read_view(params.evaluate, params.report)
    costs, of_systems = quality.costs(measured, params.evaluate)
    return (
        _environment()
        .get_template("report.html")
        .render(
            facts=facts.facts(params),
            versions=machine.versions(),
            params=path.read_text(encoding="utf-8"),
            tested=params.evaluate.significance,
            results=result_tables(measured),
            quality=quality.quality(measured, params.evaluate),
            costs=costs,
            cost_of=of_systems,
            training=models.training(),
            pair_section=models.pair(),
            dual_cross=models.dual_cross(params.evaluate),
            evidence=evidence.evidence(params.evaluate),
            statistics=read_json(project.PREPARED / "statistics.json"),
            dag=draw_dag(arrange(pipeline)),
            every=pipeline.stages,
            stages={name: list(stages) for name, stages in groupby(pipeline.stages, key=lambda stage: stage.name)},
            view=view,
            embedded=_embedded(view) if view else None,
        )
    )


def _environment() -> jinja2.Environment:
    """Everything is escaped but what is `Markup`: passages and questions are foreign text."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("gnn_encoder.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = ("points", "p_value", "difference", "verdict", "count", "size", "seconds")
    environment.filters |= {name: getattr(formats, name) for name in names} | {"name_of": name_of}
    environment.filters |= {"all_seconds": _all_seconds, "all_bytes": _all_bytes}
    environment.tests["missing"] = lambda value: isinstance(value, Missing)
    environment.globals["source"] = lambda name: Markup((TEMPLATES / name).read_text(encoding="utf-8"))
    return environment


def _all_seconds(stages: list[Stage]) -> str:
    """Time of the stages together, at least that where some have none."""
    known = [stage.seconds for stage in stages if stage.seconds is not None]
    return formats.seconds(sum(known) if known else None, at_least=0 < len(known) < len(stages))


def _all_bytes(stages: list[Stage]) -> str:
    """Bytes that the stages wrote together."""
    known = [stage.size for stage in stages if stage.size is not None]
    return formats.size(sum(known) if known else None)


def _embedded(view: View) -> Markup:
    """The view as JSON that cannot end the script element that it stands in."""
    content: dict[str, Any] = asdict(view)
    if view.first:
        split, pair = view.first
        content["start"] = {"split": view.splits.index(split), "first": pair.first, "second": pair.second}
    return htmlsafe_json_dumps(content, separators=(",", ":"), ensure_ascii=False)
