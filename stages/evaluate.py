"""evaluate BRANCH: means of the branch's systems, their significance against its baseline, tables and figures."""

from gnn_encoder.evaluation.ceiling import on_shared_queries
from gnn_encoder.evaluation.claim import write_claim
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.slices import write_slices
from gnn_encoder.evaluation.values import compare_with, means_by_system, read_values, write_ceiling, write_metrics
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.pipeline.systems import CEILING, MAIN, registry
from gnn_encoder.presenting.conclusions import log_claim
from gnn_encoder.presenting.quality import ceiling_table, results_of, results_table, write_quality
from gnn_encoder.presenting.slice_table import split_table
from gnn_encoder.presenting.tables import log_tables


def main(stage: Stage) -> None:
    """Compare, write metrics and plots, print the tables."""
    section, branch = stage.params.evaluate, registry().branches[stage.key]
    systems = registry().shown_with(stage.key)
    (measure,) = parse([section.significance])
    values = on_shared_queries(read_values(systems))
    values.write_parquet(stage.scratch / project.VALUES)
    means = means_by_system(values, section)
    compared = compare_with(values, section, {s: branch.baseline for s in systems if s != branch.baseline})
    log_tables(results_table(one, measure) for one in results_of(stage.key, means, {}, compared))
    write_metrics(stage.metrics, means, compared)
    sliced = write_slices(stage.metrics / "slices.json", values, section, branch.baseline)
    if stage.key == MAIN:
        shown = [branch.baseline, MAIN]
        log_tables(split_table(MAIN, one, split, shown) for split, one in sliced.items())
    if CEILING in systems:
        ceilings = write_ceiling(stage.metrics, values, section, stage.params.seed)
        log_tables(ceiling_table(one, split) for split, one in ceilings.items())
    write_quality(stage.plots, values, means, measure)
    if stage.key == MAIN:
        log_claim(write_claim(stage.metrics, values, section))


if __name__ == "__main__":
    run(main)
