"""Pictures of how good the systems are and what that costs."""

from typing import Any

from gnn_encoder import project
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.values import JUDGED
from gnn_encoder.params import Evaluate
from gnn_encoder.report import charts
from gnn_encoder.report.artifacts import read_json
from gnn_encoder.report.results import Measured
from gnn_encoder.report.section import Section


def quality(measured: Measured, section: Evaluate) -> Section:
    """Each system's mean with its interval, and recall; of the test questions first."""
    (tested,) = parse([section.significance])
    found = Section()
    for split in reversed(JUDGED):
        means = {
            system: of
            for system in project.BRANCH_OF
            if (
                of := {measure: mean for (name, at, measure), mean in measured.items() if (name, at) == (system, split)}
            )
        }
        pictures = charts.systems_chart(means, split, tested), charts.recall_chart(means, split)
        found.show(f"The {split} questions: {tested} with its 95% interval; recall", *pictures)
    return found


def costs(measured: Measured, section: Evaluate) -> tuple[Section, dict[str, Any]]:
    """What each system costs as `compare` measured it, and quality against it."""
    (tested,) = parse([section.significance])
    found, of = Section(), read_json(project.METRICS / "costs.json") or {}
    if not of:
        found.miss("Costs have not been measured", "dvc repro compare")
    means = {system: measured[system, "test", tested] for system in of if (system, "test", tested) in measured}
    if means:
        pictures = charts.cost_charts(means, of, tested)
        found.show(f"{tested} of the test questions against the index's size and against latency", *pictures)
    return found, of
