"""evaluate BRANCH: measures of the branch's systems, their significance against its baseline, tables and figures."""

import polars as pl

from gnn_encoder.base.files import write_json
from gnn_encoder.evaluation.ceiling import measure_ceiling
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.slices import slice_splits
from gnn_encoder.evaluation.values import compare_with, means_by_system, on_shared_queries
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.judging import claim_of_main, measure, read_values
from gnn_encoder.pipeline.labels import judged_labels
from gnn_encoder.pipeline.project import CEILING, MAIN, REFERENCE, registry
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.presenting.conclusions import log_claim
from gnn_encoder.presenting.quality import ceiling_table, results_of, results_table, write_quality
from gnn_encoder.presenting.slice_table import split_table
from gnn_encoder.presenting.tables import log_tables


def main(stage: Stage) -> None:
    """Measure, compare, write metrics and plots, print the tables."""
    section, systems = stage.params.evaluate, registry().shown_with(stage.key)
    names, (tested,) = list(parse(section.measures)), parse([section.significance], "evaluate.significance")
    baseline, own = registry().branches[stage.key].baseline, dict[str, pl.DataFrame]()
    folder = stage.unfinished(project.evaluation(stage.key))
    for system in registry().branches[stage.key].systems:
        own[system] = measure(system, list(dict.fromkeys([*names, tested])), section)
        target = stage.unfinished(project.measured(system).parent) / system
        target.mkdir(parents=True, exist_ok=True)
        own[system].write_parquet(target / project.VALUES)
    values = on_shared_queries(pl.concat([own[name] if name in own else read_values([name]) for name in systems]))
    folder.mkdir(parents=True, exist_ok=True)
    values.write_parquet(folder / project.VALUES)
    means = means_by_system(values, names)
    compared = compare_with(values, tested, {s: baseline for s in systems if s != baseline})
    log_tables(results_table(one, tested) for one in results_of(stage.key, means, {}, compared))
    sliced = slice_splits(values, judged_labels(stage.params), tested, baseline)
    write_quality(stage.plots, values, means, tested)
    found: dict[str, object] = {**means, "significance": compared, "slices": sliced}
    if CEILING in systems:
        ceilings = measure_ceiling(values, tested, stage.params.seed, base=REFERENCE, ceiling=CEILING)
        log_tables(ceiling_table(one, split) for split, one in ceilings.items())
        found["ceiling"] = ceilings
    if stage.key == MAIN:
        log_tables(split_table(MAIN, one, split) for split, one in sliced.items())
        found["claim"] = claim = claim_of_main(values, section)
        log_claim(claim)
    for name, value in found.items():
        write_json(stage.metrics / f"{name}.json", value)


if __name__ == "__main__":
    run(main)
