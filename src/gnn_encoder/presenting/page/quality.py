"""How good the systems are and what that costs: tables and figures."""

from functools import partial
from typing import Any

from gnn_encoder.core import project
from gnn_encoder.core.params import Evaluate
from gnn_encoder.evaluation.cost_record import Costs
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.presenting.artifacts import read_json
from gnn_encoder.presenting.costs import LATENCY, SIZE, costs_table, paint_costs
from gnn_encoder.presenting.means import Means
from gnn_encoder.presenting.page.section import Section
from gnn_encoder.presenting.pictures import TALL, draw
from gnn_encoder.presenting.recall import paint_recall, recalls
from gnn_encoder.presenting.results import paint_systems


def quality(measured: dict[str, Means], section: Evaluate) -> Section:
    """Each system's mean with its interval, and recall; of the test queries first."""
    (tested,) = parse([section.significance])
    found = Section()
    if not measured:
        found.miss("No question's value is there to draw pictures from", "dvc repro evaluate@gnn_encoder")
    for split in reversed(project.JUDGED):
        if split in measured:
            _show_split(found, split, measured[split], tested)
    return found


def costs(measured: dict[str, Means], section: Evaluate) -> Section:
    """What each system costs as `compare` measured it, and quality against it."""
    (tested,) = parse([section.significance])
    found = Section()
    of = {system: Costs(**fields) for system, fields in (read_json(project.METRICS / "costs.json") or {}).items()}
    if not of:
        found.miss("Costs have not been measured", "dvc repro compare")
        return found
    found.tables.append(costs_table(of))
    test = measured.get("test", {})
    means = {system: test[system][tested] for system in of if tested in test.get(system, {})}
    drawn: dict[str, Any] = {"means": means, "costs": of, "measure": tested}
    if means:
        pictures = [
            draw(name, f"{tested} against {label}", partial(paint_costs, **drawn, label=label), TALL)
            for name, label in (("cost-size", SIZE), ("cost-latency", LATENCY))
        ]
        found.show(f"{tested} of the test questions against the index's size and against latency", *pictures)
    return found


def _show_split(found: Section, split: str, measured: Means, tested: str) -> None:
    means = {system: of[tested] for system, of in measured.items() if tested in of}
    values = {system: {name: mean.mean for name, mean in of.items()} for system, of in measured.items()}
    pictures = []
    if means:
        title = f"{tested} of each system on the {split} questions, with its 95% interval"
        size = (4.6, 0.8 + 0.38 * len(means))
        pictures.append(draw(f"systems-{split}", title, partial(paint_systems, means=means, measure=tested), size))
    if any(len(recalls(of)) > 1 for of in values.values()):
        title = f"Recall against its depth on the {split} questions"
        pictures.append(draw(f"recall-{split}", title, partial(paint_recall, means=values), TALL))
    found.show(f"The {split} questions: {tested} with its 95% interval; recall", *pictures)
