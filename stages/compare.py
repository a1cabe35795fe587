"""compare: every system in one table, with what it costs; significance against M_de and against its own baseline.

How far the systems of one vector a passage come towards the ceiling is told on the questions that were reranked.
"""

from dataclasses import asdict

from tqdm import tqdm

from gnn_encoder.core import project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import WORK, output, run
from gnn_encoder.core.storage.atomic import publish_files, write_json
from gnn_encoder.evaluation.ceiling import CEILING
from gnn_encoder.evaluation.costs import measure_costs
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.values import (
    compare_with,
    means_by_system,
    read_values,
    write_ceiling,
    write_comparisons,
    write_metrics,
)
from gnn_encoder.presenting.costs import cost_panels, costs_table
from gnn_encoder.presenting.evaluation import log_ceiling, log_results, log_table, write_plots
from gnn_encoder.presenting.figure import write_png
from gnn_encoder.presenting.means import means_of
from gnn_encoder.presenting.results import REFERENCE


def main() -> None:
    """Compare all, measure costs, write metrics and plots, print the tables."""
    params = load_params()
    section = params.evaluate
    systems = tuple(system for system in project.BRANCH_OF if not project.is_sampled(system))
    inputs = [*map(project.measured, project.BRANCH_OF), *map(project.index, project.ENCODERS)]
    own = {
        system: branch.baseline
        for branch in project.BRANCHES.values()
        for system in branch.systems
        if system != branch.baseline and not branch.sampled
    }
    with output(project.COMPARISON, inputs, {"evaluate": section, "seed": params.seed}) as scratch:
        values = read_values(systems)
        values.write_parquet(scratch / project.VALUES)
        means = means_by_system(values, section)
        compared = compare_with(values, section, {system: REFERENCE for system in systems if system != REFERENCE})
        against_own = compare_with(values, section, own)
        costs = {system: measure_costs(system, params) for system in tqdm(project.ENCODERS, desc="costs", disable=None)}
        log_results("all systems", means, compared, against_own, section)
        log_table(costs_table(costs))
        metrics, plots = scratch / WORK / "metrics", scratch / WORK / "plots"
        write_metrics(metrics, means, compared)
        write_comparisons(metrics / "baselines.json", against_own)
        single = [system for system, cost in costs.items() if cost.vectors_a_passage == 1]
        log_ceiling(write_ceiling(metrics, read_values([*single, CEILING]), section, params.seed))
        write_json(metrics / "costs.json", {system: asdict(cost) for system, cost in costs.items()})
        write_plots(plots, values, means, section)
        (tested,) = parse([section.significance])
        test = means_of(values.filter(split="test", measure=tested))["test"]
        write_png(plots / "costs.png", cost_panels(test, costs, tested))
        publish_files(metrics, project.METRICS)
        publish_files(plots, project.PLOTS)


if __name__ == "__main__":
    run(main)
