"""compare: every system in one table, with what it costs; significance against M_de and against its own baseline.

How far the systems of one vector a passage come towards the ceiling is told on the queries that were reranked.
"""

import logging
from dataclasses import asdict

from tqdm import tqdm

from gnn_encoder.core import project
from gnn_encoder.core.stage import Stage, run
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.core.systems import CEILING, REFERENCE, registry
from gnn_encoder.evaluation import report
from gnn_encoder.evaluation.costs import measure_costs
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.values import (
    compare_with,
    log_tables,
    means_by_system,
    read_values,
    write_ceiling,
    write_comparisons,
    write_metrics,
    write_plots,
)

log = logging.getLogger(__name__)


def main(stage: Stage) -> None:
    """Compare all, measure costs, write metrics and plots, print the tables."""
    section, metrics, plots = stage.params.evaluate, stage.metrics, stage.plots
    systems = [system for system in registry().systems if not registry().is_sampled(system)]
    values = read_values(systems)
    values.write_parquet(stage.scratch / project.VALUES)
    means = means_by_system(values, section)
    compared = compare_with(values, section, {system: REFERENCE for system in systems if system != REFERENCE})
    against_own = compare_with(values, section, registry().baselines)
    costs = {name: measure_costs(name, stage.params) for name in tqdm(registry().dense, desc="costs", disable=None)}
    log_tables(means, compared, section)
    log_tables(means, against_own, section)
    log.info("\n%s", report.costs_table(costs))
    write_metrics(metrics, means, compared)
    write_comparisons(metrics / "baselines.json", against_own)
    single = [system for system, cost in costs.items() if cost.vectors_a_passage == 1]
    write_ceiling(metrics, read_values([*single, CEILING]), section, stage.params.seed)
    write_json(metrics / "costs.json", {system: asdict(cost) for system, cost in costs.items()})
    write_plots(plots, values, means, section)
    (tested,) = parse([section.significance])
    report.draw_costs(plots / "costs.png", values.filter(split="test", measure=tested), costs, tested)


if __name__ == "__main__":
    run(main)
