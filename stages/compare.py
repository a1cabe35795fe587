"""compare: all systems in one table with significance against M_de and against their own baselines, and their costs.

For systems with one vector per passage it also writes how much of the way from M_de to the ceiling they cover, measured
on the queries that were reranked, and draws what compares the systems of PAIR and of Dual-Cross-Encoder.
"""

from gnn_encoder.baselines.costs import measure_second_look_ups
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.dual_cross.curve import curve
from gnn_encoder.evaluation.costs import measure_all_costs, write_costs
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.values import (
    compare_with,
    means_by_system,
    read_values,
    write_ceiling,
    write_comparisons,
    write_metrics,
)
from gnn_encoder.pair.similarity import measure_similarities
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.pipeline.systems import CEILING, REFERENCE, registry
from gnn_encoder.presenting.branch_figures import similarity_panel, views_table
from gnn_encoder.presenting.cost_table import costs_table, latency_panel
from gnn_encoder.presenting.figures import write_png
from gnn_encoder.presenting.quality import ceiling_table, means_of, results_of, results_table, write_quality
from gnn_encoder.presenting.tables import log_tables


def main(stage: Stage) -> None:
    """Compare all systems, measure costs, write metrics and plots, print the tables."""
    section, metrics, plots = stage.params.evaluate, stage.metrics, stage.plots
    (measure,) = parse([section.significance])
    systems = [system for system in registry().systems if not registry().is_sampled(system)]
    values = read_values(systems)
    values.write_parquet(stage.scratch / project.VALUES)
    means = means_by_system(values, section)
    compared = compare_with(values, section, {system: REFERENCE for system in systems if system != REFERENCE})
    against_own = compare_with(values, section, registry().baselines)
    measured = measure_all_costs(stage.params) | measure_second_look_ups(stage.params)
    costs = {system: measured[system] for system in registry().systems if system in measured}
    log_tables(results_table(one, measure) for one in results_of("all systems", means, compared, against_own))
    log_tables([costs_table(costs)])
    write_metrics(metrics, means, compared)
    write_comparisons(metrics / "baselines.json", against_own)
    write_costs(metrics / "costs.json", costs)
    judged = read_values([*registry().one_vector, CEILING])
    ceilings = write_ceiling(metrics, judged, section, stage.params.seed)
    log_tables(ceiling_table(one, split) for split, one in ceilings.items())
    write_quality(plots, values, means, measure)
    draw_pair(stage)
    draw_views(stage)
    tested = means_of(values.filter(split="test", measure=measure))["test"]
    write_png(plots / "costs.png", [latency_panel(tested, costs, measure)])


def draw_pair(stage: Stage) -> None:
    """PAIR's Figure 4: mean s(p+, q) and s(p+, p-) with and without the passage-centric loss."""
    found = measure_similarities(registry().of_branch("pair"), stage.params)
    write_json(stage.scratch / "similarity.json", found)
    write_png(stage.plots / "pair" / "similarity.png", [similarity_panel(found)])


def draw_views(stage: Stage) -> None:
    """Dev measures, index size and search time with the first view of each passage, with the first two, and so on."""
    for system in registry().views:
        found = curve(system, stage.params, stage.work)
        log_tables([views_table(found)])
        found.write_csv(stage.scratch / f"{system}.csv")
        found.write_csv(stage.plots / system / "views.csv")


if __name__ == "__main__":
    run(main)
