"""evaluate BRANCH: measures of the branch's systems, their significance against its baseline, tables and figures."""

from typing import Any

import polars as pl

from gnn_encoder.base.files import write_json
from gnn_encoder.evaluate import slices, tables
from gnn_encoder.evaluate.judge import measure_systems
from gnn_encoder.evaluate.measures import compare_with, means_by_system, parse, parts_by
from gnn_encoder.evaluate.report import write_figures
from gnn_encoder.gnn.graph import open_graph
from gnn_encoder.gnn.neighbourhood import open_explainer
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.project import MAIN, registry
from gnn_encoder.pipeline.stage import Stage, run


def main(stage: Stage) -> None:
    """Measure, compare, write metrics and plots, print the tables."""
    section, branch = stage.params.evaluate, registry().branches[stage.key]
    names, (tested,) = list(parse(section.measures)), parse([section.significance], "evaluate.significance")
    values = measure_systems(branch.systems, [*names, tested], stage.unfinished(project.MEASURES / stage.key))
    means, by_query = means_by_system(values, names), parts_by("split", values.filter(measure=tested))
    baselines = dict.fromkeys(branch.systems, branch.baseline)
    compared = compare_with(values, tested, {one: other for one, other in baselines.items() if one != other})
    tables.tell(tables.results_table(stage.key, split, of, compared[split], tested) for split, of in means.items())
    retrieved = open_graph().retrieved if stage.key == MAIN else None
    properties = slices.query_properties(stage.params, retrieved)
    sliced = {one: slices.slice_systems(of, properties[one], tested, branch.baseline) for one, of in by_query.items()}
    write_figures(stage.unfinished(project.PLOTS / stage.key), values, means, tested)
    found: dict[str, object] = {**means, "significance": compared, "slices": sliced}
    if stage.key == MAIN:
        tables.tell(slices.slices_table(MAIN, one, split) for split, one in sliced.items())
        again = slices.asked_again([one for one in branch.systems if one in registry().dense], tested, stage.params)
        found["claim"] = claim = tables.claim_of_main(values, tested, again)
        write_json(stage.unfinished(project.INFORMED) / "informed.json", told := informed(stage.params))
        tables.tell([slices.attention_table(told["attention"]), *tables.claim_sentences(claim)])
    for name, value in found.items():
        write_json(stage.unfinished(project.METRICS / stage.key / f"{name}.json"), value)


def informed(params: Params) -> dict[str, Any]:
    """What the GNN attends to at a sample of passages, and what it answers and M_de does not."""
    inform, before = open_explainer(params)
    return slices.what_informs(
        inform.near.graph.retrieved, lambda rows: pl.DataFrame(inform.explain(rows, before(rows)))
    )


if __name__ == "__main__":
    run(main)
