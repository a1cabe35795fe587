"""compare: all systems in one table with significance against M_de and against their own baselines, and their costs.

For systems with one vector per passage it also writes how much of the way from M_de to the ceiling they cover, measured
on the queries that were reranked.
"""

from gnn_encoder.baselines.costs import measure_second_look_ups
from gnn_encoder.evaluation.costs import measure_all_costs, write_costs
from gnn_encoder.evaluation.values import (
    compare_with,
    means_by_system,
    read_values,
    write_ceiling,
    write_comparisons,
    write_metrics,
)
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.pipeline.systems import CEILING, REFERENCE, registry
from gnn_encoder.presenting.costs import costs_table
from gnn_encoder.presenting.evaluation import draw_costs, log_ceiling, log_results, log_table, write_plots


def main(stage: Stage) -> None:
    """Compare all systems, measure costs, write metrics and plots, print the tables."""
    section, metrics, plots = stage.params.evaluate, stage.metrics, stage.plots
    systems = [system for system in registry().systems if not registry().is_sampled(system)]
    values = read_values(systems)
    values.write_parquet(stage.scratch / project.VALUES)
    means = means_by_system(values, section)
    compared = compare_with(values, section, {system: REFERENCE for system in systems if system != REFERENCE})
    against_own = compare_with(values, section, registry().baselines)
    measured = measure_all_costs(stage.params) | measure_second_look_ups(stage.params)
    costs = {system: measured[system] for system in registry().systems if system in measured}
    log_results("all systems", means, compared, against_own, section)
    log_table(costs_table(costs))
    write_metrics(metrics, means, compared)
    write_comparisons(metrics / "baselines.json", against_own)
    write_costs(metrics / "costs.json", costs)
    log_ceiling(write_ceiling(metrics, read_values([*registry().one_vector, CEILING]), section, stage.params.seed))
    write_plots(plots, values, means, section)
    draw_costs(plots / "costs.png", values.filter(split="test"), costs, section)


if __name__ == "__main__":
    run(main)
