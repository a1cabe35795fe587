"""compare: all systems in one table with significance against M_de and against their own baselines, and their costs.

For systems with one vector per passage it also writes how much of the way from M_de to the ceiling they cover, measured
on the queries that were reranked, and draws what compares the systems of PAIR and of Dual-Cross-Encoder.
"""

from pathlib import Path

import numpy as np
import polars as pl
from tqdm import tqdm

from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.rows import Rows
from gnn_encoder.core.runs import as_run, read_run
from gnn_encoder.core.storage.arrays import gather, open_matrix
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.core.storage.tables import read_column
from gnn_encoder.dual_cross.curve import Curve, Point
from gnn_encoder.dual_cross.views import pool_of
from gnn_encoder.evaluation.ceiling import measure_ceiling
from gnn_encoder.evaluation.costs import Costs
from gnn_encoder.evaluation.measures import mean, parse
from gnn_encoder.evaluation.values import compare_with, means_by_system
from gnn_encoder.pair.similarity import not_answering, similarities, triples
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.costs import costs_of, costs_of_hybrid, costs_with_labelled_queries
from gnn_encoder.pipeline.judging import judgements, read_values
from gnn_encoder.pipeline.opening import embed_table
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.pipeline.systems import CEILING, HYBRID, REFERENCE, registry
from gnn_encoder.presenting.branch_figures import similarity_panel, views_table
from gnn_encoder.presenting.cost_table import costs_table, latency_panel
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
    draw_pair(stage)
    draw_views(stage)
    of_test = means_of(values.filter(split="test", measure=tested))["test"]
    write_png(plots / "costs.png", [latency_panel(of_test, costs, tested)])


def measured_costs(params: Params) -> dict[str, Costs]:
    """Costs of the systems that search vectors, alone or beside something else."""
    found = {system: costs_of(system, params) for system in tqdm(registry().dense, desc="costs", disable=None)}
    logged = [name for name, one in registry().reordered.items() if not one.one_vector]
    found |= {system: costs_with_labelled_queries(system, params) for system in logged}
    found[HYBRID] = costs_of_hybrid(params)
    return {system: found[system] for system in registry().systems if system in found}


def draw_pair(stage: Stage) -> None:
    """PAIR's Figure 4: mean s(p+, q) and s(p+, p-) with and without the passage-centric loss."""
    queries, answers = project.queries("dev"), stage.params.evaluate.answers
    pairs = relevant_pairs(queries, project.POSITIVES, project.PASSAGES)
    retrieved = not_answering(read_run(project.run_file("retriever", "dev")), queries, project.PASSAGES, answers)
    chosen = triples(pairs, retrieved)
    query, *others = (chosen[name].to_numpy().astype(np.int64) for name in ("query", "passage", "negative"))
    found = {}
    for system in registry().of_branch("pair"):
        asked = embed_table(system, queries, stage.params.encoder, query)
        matrix = open_matrix(project.embeddings(system))
        found[system] = similarities(asked, *(gather(matrix, rows).astype(np.float32) for rows in others))
    write_json(stage.scratch / "similarity.json", found)
    write_png(stage.plots / "pair" / "similarity.png", [similarity_panel(found)])


def draw_views(stage: Stage) -> None:
    """Dev measures, index size and search time with the first view of each passage, with the first two, and so on."""
    for system in registry().of_kind("views"):
        found = views_curve(system, stage.params, stage.work)
        log_tables([views_table(found)])
        found.write_csv(stage.scratch / f"{system}.csv")
        (stage.plots / system).mkdir(parents=True, exist_ok=True)
        found.write_csv(stage.plots / system / "views.csv")


def views_curve(system: str, params: Params, work: Path) -> pl.DataFrame:
    """The curve of a system's views on the dev queries; rows that an interrupted run left in `work` are kept."""
    section, asked = params.evaluate, project.queries("dev")
    names = list(parse([*section.measures, section.significance]))
    qids, pids = pl.Series(read_column(asked, "qid")), pl.Series(read_column(project.PASSAGES, "pid"))

    def judge(rankings: Rows) -> Point:
        return mean(judgements("dev", section).measure(as_run(rankings, qids, pids), names))

    return Curve(
        matrix=project.views(system),
        queries=embed_table(system, asked, params.encoder),
        passages=project.PASSAGES,
        judge=judge,
        depth=params.retrieve.depth,
        factory=params.index.factory,
        dtype=params.cache_passages.dtype,
        seed=params.seed,
    ).measure(pool_of(params.dual_cross), work)


if __name__ == "__main__":
    run(main)
