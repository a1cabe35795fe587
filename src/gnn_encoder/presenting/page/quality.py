"""The figures of the section Results, and the section Costs."""

from gnn_encoder.evaluation.cost_record import Costs
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.params import Evaluate
from gnn_encoder.pipeline import project
from gnn_encoder.presenting.artifacts import read_records
from gnn_encoder.presenting.costs import cost_panels, costs_table
from gnn_encoder.presenting.means import Means
from gnn_encoder.presenting.page.section import Section
from gnn_encoder.presenting.pictures import as_svg
from gnn_encoder.presenting.recall import recall_panel, recalls
from gnn_encoder.presenting.results import systems_panel


def quality(measured: dict[str, Means], section: Evaluate) -> Section:
    """Figures of each system's mean with its interval, and of recall; test queries before dev queries."""
    (tested,) = parse([section.significance])
    found = Section()
    if not measured:
        found.miss("No query's value is there to draw pictures from", "dvc repro evaluate@gnn_encoder")
    for split in reversed(project.JUDGED):
        means = measured.get(split, {})
        values = {system: {name: mean.mean for name, mean in of.items()} for system, of in means.items()}
        panels = [systems_panel(means, split, tested)] if any(tested in of for of in means.values()) else []
        panels += [recall_panel(values, split)] if any(len(recalls(of)) > 1 for of in values.values()) else []
        found.show(f"The {split} queries: {tested} with its 95% interval; recall", *map(as_svg, panels))
    return found


def costs(measured: dict[str, Means], section: Evaluate) -> Section:
    """The costs of each system as `compare` measured them, and figures of quality against cost."""
    (tested,) = parse([section.significance])
    found = Section()
    of = read_records(project.METRICS / "costs.json", dict[str, Costs])
    if not of:
        found.miss("Costs have not been measured", "dvc repro compare")
        return found
    found.tables.append(costs_table(of))
    test = measured.get("test", {})
    if any(tested in test.get(system, {}) for system in of):
        caption = f"{tested} of the test queries against the index's size and against latency"
        found.show(caption, *map(as_svg, cost_panels(test, of, tested)))
    return found
