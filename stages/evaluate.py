"""evaluate BRANCH: measures of the branch's systems, their significance against its baseline, tables and figures."""

from typing import Any

import numpy as np
import polars as pl

from gnn_encoder.base.files import write_json
from gnn_encoder.base.matrix import Rows, open_matrix
from gnn_encoder.base.tables import read_column
from gnn_encoder.evaluate import slices
from gnn_encoder.evaluate.judge import measure_system, read_values
from gnn_encoder.evaluate.measures import by_split, compare_with, means_by_system, parse
from gnn_encoder.evaluate.report import write_figures
from gnn_encoder.evaluate.tables import claim_of_main, log_claim, log_tables, results_table
from gnn_encoder.gnn.graph import open_labels
from gnn_encoder.gnn.neighbourhood import before_graph, graph_encoder, open_informer
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.project import MAIN, registry
from gnn_encoder.pipeline.stage import Stage, run

PASSAGES = 2_000  # whose attention is averaged, spread evenly over those that a query retrieved


def main(stage: Stage) -> None:
    """Measure, compare, write metrics and plots, print the tables."""
    section, branch, shown = stage.params.evaluate, registry().branches[stage.key], registry().shown_with(stage.key)
    names, (tested,) = list(parse(section.measures)), parse([section.significance], "evaluate.significance")
    own = {system: measure_system(system, list(dict.fromkeys([*names, tested])), section) for system in branch.systems}
    for system, measured in own.items():
        target = stage.unfinished(project.measured(system).parent) / system
        target.mkdir(parents=True, exist_ok=True)
        measured.write_parquet(target / project.VALUES)
    values = pl.concat([own[name] if name in own else read_values([name]) for name in shown])
    folder = stage.unfinished(project.evaluation(stage.key))
    values.write_parquet(folder / project.VALUES)
    means = means_by_system(values, names)
    compared = compare_with(values, tested, {name: branch.baseline for name in shown if name != branch.baseline})
    log_tables(results_table(stage.key, split, of, compared[split], tested) for split, of in means.items())
    properties, by_query = slices.query_properties(stage.params), by_split(values.filter(measure=tested))
    sliced = {one: slices.slice_systems(of, properties[one], tested, branch.baseline) for one, of in by_query.items()}
    write_figures(stage.plots, values, means, tested)
    found: dict[str, object] = {**means, "significance": compared, "slices": sliced}
    if stage.key == MAIN:
        log_tables(slices.slices_table(MAIN, one, split) for split, one in sliced.items())
        told = informed(stage.params)
        log_tables([slices.attention_table(told["attention"])])
        write_json(folder / "informed.json", told)
        found["claim"] = claim = claim_of_main(values, tested)
        log_claim(claim)
    for name, value in found.items():
        write_json(stage.metrics / f"{name}.json", value)


def informed(params: Params) -> dict[str, Any]:
    """What the GNN attends to at some passages, and what it answers and M_de does not."""
    pairs = open_labels()
    won, counts = slices.compare_at_rank_one(params.evaluate)
    attention = attend(params, won["passage"].to_numpy())
    nodes = pl.Series(read_column(project.NODES, "text"))
    cases = slices.describe_cases(won, attention, pairs, nodes)
    return {"attention": slices.attention_shares(attention, pairs), "counts": counts, "cases": cases}


def attend(params: Params, passages: Rows) -> pl.DataFrame:
    """The `ATTENTION` table of some passages and of a sample of all that a query retrieved."""
    encoder, encoded = graph_encoder(params)
    informer = open_informer(encoder, params)
    every = informer.retrieved
    sample = every[np.unique(np.linspace(0, len(every) - 1, min(len(every), PASSAGES)).astype(np.int64))]
    rows = np.union1d(sample, np.intersect1d(passages, every))
    matrix = None if encoded is None else open_matrix(encoded)
    vectors = before_graph(encoder, matrix, rows, params.encoder.batch_tokens)
    return pl.DataFrame(informer.explain(rows, vectors))


if __name__ == "__main__":
    run(main)
