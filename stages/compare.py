"""compare: all systems in one table with significance against M_de and against their own baselines, and their costs.

For systems with one vector per passage it also writes how much of the way from M_de to the ceiling they cover, measured
on the queries that were reranked, and draws what compares the systems of PAIR and of Dual-Cross-Encoder.
"""

from gnn_encoder.base.files import write_json
from gnn_encoder.evaluation.ceiling import measure_ceiling
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.values import compare_with, means_by_system
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.branches import pair_similarities, views_by_diversity, views_curve
from gnn_encoder.pipeline.costs import measured_costs
from gnn_encoder.pipeline.judging import read_values
from gnn_encoder.pipeline.project import CEILING, REFERENCE, registry
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.presenting.compared import (
    costs_table,
    diversity_table,
    latency_panel,
    similarity_panel,
    views_table,
)
from gnn_encoder.presenting.figures import write_png
from gnn_encoder.presenting.quality import ceiling_table, means_of, results_of, results_table, write_quality
from gnn_encoder.presenting.tables import log_tables


def main(stage: Stage) -> None:
    """Compare all systems, measure costs, write metrics and plots, print the tables."""
    section, plots, known = stage.params.evaluate, stage.plots, registry()
    (tested,) = parse([section.significance])
    systems = [system for system in known.systems if not known.is_sampled(system)]
    values = read_values(systems)
    values.write_parquet(stage.scratch / project.VALUES)
    means = means_by_system(values, list(parse(section.measures)))
    compared = compare_with(values, tested, {system: REFERENCE for system in systems if system != REFERENCE})
    against_own = compare_with(values, tested, known.baselines)
    judged = read_values([*known.one_vector, CEILING])
    ceilings = measure_ceiling(judged, tested, stage.params.seed, base=REFERENCE, ceiling=CEILING)
    costs = measured_costs(stage.params)
    log_tables(results_table(one, tested) for one in results_of("all systems", means, compared, against_own))
    log_tables([costs_table(costs)])
    log_tables(ceiling_table(one, split) for split, one in ceilings.items())
    found = {**means, "significance": compared, "baselines": against_own, "costs": costs, "ceiling": ceilings}
    for name, value in found.items():
        write_json(stage.metrics / f"{name}.json", value)
    write_quality(plots, values, means, tested)
    similarity = pair_similarities(stage.params)  # PAIR's Figure 4
    write_json(stage.scratch / "similarity.json", similarity)
    write_png(plots / "pair" / "similarity.png", [similarity_panel(similarity)])
    for system in known.of_kind("views"):  # Dual-Cross-Encoder's Table 6 and Figures 2 to 4
        curve, levels = views_curve(system, stage.params), views_by_diversity(system, stage.params)
        log_tables([views_table(curve), diversity_table(levels)])
        for folder in (stage.scratch / system, plots / system):
            folder.mkdir(parents=True, exist_ok=True)
            curve.write_csv(folder / "views.csv")
            levels.write_csv(folder / "diversity.csv")
    of_test = means_of(values.filter(split="test", measure=tested))["test"]
    write_png(plots / "costs.png", [latency_panel(of_test, costs, tested)])


if __name__ == "__main__":
    run(main)
