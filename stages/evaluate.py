"""evaluate BRANCH: its systems' means, their significance against the branch's baseline, tables and pictures."""

import sys

from gnn_encoder.core import project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import WORK, output, run
from gnn_encoder.core.storage.atomic import publish_files
from gnn_encoder.evaluation.ceiling import CEILING, on_shared_questions
from gnn_encoder.evaluation.values import compare_with, means_by_system, read_values, write_ceiling, write_metrics
from gnn_encoder.presenting.evaluation import log_ceiling, log_results, write_plots
from gnn_encoder.presenting.training import draw_training


def main() -> None:
    """Compare, write metrics and plots, print the tables."""
    params = load_params()
    section = params.evaluate
    name = project.chosen(sys.argv[1:], tuple(project.BRANCHES))
    branch = project.BRANCHES[name]
    others = [system for system in (branch.baseline, *branch.beside) if system not in branch.systems]
    systems = [*others, *branch.systems]
    history = project.DATA / "mgt" / name / "history.csv"
    inputs = [*map(project.measured, systems), *([history] if history.is_file() else [])]
    with output(project.evaluation(name), inputs, {"evaluate": section, "seed": params.seed}) as scratch:
        values = on_shared_questions(read_values(systems))
        values.write_parquet(scratch / project.VALUES)
        means = means_by_system(values, section)
        compared = compare_with(values, section, {s: branch.baseline for s in systems if s != branch.baseline})
        log_results(name, means, {}, compared, section)
        metrics, plots = scratch / WORK / "metrics", scratch / WORK / "plots"
        write_metrics(metrics, means, compared)
        if CEILING in systems:
            log_ceiling(write_ceiling(metrics, values, section, params.seed))
        write_plots(plots, values, means, section)
        if history.is_file():
            draw_training(plots / "training.png", {name: history})
        publish_files(metrics, project.METRICS / name)
        publish_files(plots, project.PLOTS / name)


if __name__ == "__main__":
    run(main)
