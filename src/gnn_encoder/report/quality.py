"""Pictures of how good the systems are and what that costs."""

from typing import Any

from gnn_encoder.core import project
from gnn_encoder.core.params import Evaluate
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.report import charts
from gnn_encoder.report.artifacts import read_json
from gnn_encoder.report.results import Means
from gnn_encoder.report.section import Section


def quality(measured: dict[str, Means], section: Evaluate) -> Section:
    """Each system's mean with its interval, and recall; of the test questions first."""
    (tested,) = parse([section.significance])
    found = Section()
    if not measured:
        found.miss("No question's value is there to draw pictures from", "dvc repro evaluate@gnn_encoder")
    for split in reversed(project.JUDGED):
        means = measured.get(split, {})
        pictures = charts.systems_chart(means, split, tested), charts.recall_chart(means, split)
        found.show(f"The {split} questions: {tested} with its 95% interval; recall", *pictures)
    return found


def costs(measured: dict[str, Means], section: Evaluate) -> tuple[Section, dict[str, Any]]:
    """What each system costs as `compare` measured it, and quality against it."""
    (tested,) = parse([section.significance])
    found, of = Section(), read_json(project.METRICS / "costs.json") or {}
    if not of:
        found.miss("Costs have not been measured", "dvc repro compare")
    test = measured.get("test", {})
    means = {system: test[system][tested] for system in of if tested in test.get(system, {})}
    if means:
        pictures = charts.cost_charts(means, of, tested)
        found.show(f"{tested} of the test questions against the index's size and against latency", *pictures)
    return found, of
