"""evaluate BRANCH: measures of the branch's systems, their significance against its baseline, tables and figures."""

from pathlib import Path

import numpy as np
import polars as pl

from gnn_encoder.encoding.corpus import alone, embed_queries, iterate_queries
from gnn_encoder.evaluation.ceiling import on_shared_queries
from gnn_encoder.evaluation.claim import write_claim
from gnn_encoder.evaluation.judge import measure_run
from gnn_encoder.evaluation.labels import write_about
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.properties import label_queries
from gnn_encoder.evaluation.similarity import nearest_similarity
from gnn_encoder.evaluation.slices import write_slices
from gnn_encoder.evaluation.values import compare_with, means_by_system, read_values, write_ceiling, write_metrics
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.opening import open_passages, open_queries
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.pipeline.systems import CEILING, MAIN, REFERENCE, registry
from gnn_encoder.presenting.conclusions import log_claim
from gnn_encoder.presenting.quality import ceiling_table, results_of, results_table, write_quality
from gnn_encoder.presenting.slice_table import split_table
from gnn_encoder.presenting.tables import log_tables


def main(stage: Stage) -> None:
    """Measure, compare, write metrics and plots, print the tables."""
    section, branch = stage.params.evaluate, registry().branches[stage.key]
    systems = registry().shown_with(stage.key)
    (tested,) = parse([section.significance])
    own = measure(stage)
    values = on_shared_queries(pl.concat([own[name] if name in own else read_values([name]) for name in systems]))
    folder = stage.unfinished(project.evaluation(stage.key))
    values.write_parquet(folder / project.VALUES)
    means = means_by_system(values, section)
    compared = compare_with(values, section, {s: branch.baseline for s in systems if s != branch.baseline})
    log_tables(results_table(one, tested) for one in results_of(stage.key, means, {}, compared))
    write_metrics(stage.metrics, means, compared)
    write_labels(folder / "slices", stage.params)
    sliced = write_slices(stage.metrics / "slices.json", values, section, branch.baseline, folder / "slices")
    if stage.key == MAIN:
        shown = [branch.baseline, MAIN]
        log_tables(split_table(MAIN, one, split, shown) for split, one in sliced.items())
    if CEILING in systems:
        ceilings = write_ceiling(stage.metrics, values, section, stage.params.seed)
        log_tables(ceiling_table(one, split) for split, one in ceilings.items())
    write_quality(stage.plots, values, means, tested)
    if stage.key == MAIN:
        log_claim(write_claim(stage.metrics, values, section))


def measure(stage: Stage) -> dict[str, pl.DataFrame]:
    """Measure the runs of the branch's systems on both judged splits, and write what each query has."""
    section, found = stage.params.evaluate, dict[str, pl.DataFrame]()
    names = list(parse(section.measures) | parse([section.significance], "evaluate.significance"))
    for system in registry().of_branch(stage.key):
        found[system] = pl.concat([measure_run(system, split, names, section) for split in project.JUDGED])
        target = stage.unfinished(project.measured(system).parent) / system / project.VALUES
        target.parent.mkdir(parents=True, exist_ok=True)
        found[system].write_parquet(target)
    return found


def write_labels(folder: Path, params: Params) -> None:
    """Compare the judged queries with the training queries, by M_de, and write a table of labels for each split."""
    precision, batch_tokens = params.encoder.precision, params.encoder.batch_tokens
    encoder = DualEncoder.load(project.encoder(REFERENCE), precision=precision).for_inference()
    judged = [embed_queries(encoder, open_queries(project.queries(s), encoder), batch_tokens) for s in project.JUDGED]
    training = iterate_queries(encoder, open_queries(project.queries("train"), encoder), batch_tokens)
    nearest = nearest_similarity(np.concatenate(judged), training)
    passages, about = alone(encoder, open_passages(encoder)), {}
    folder.mkdir(exist_ok=True)
    for split, similarities in zip(project.JUDGED, np.split(nearest, [len(judged[0])]), strict=True):
        labels, about[split] = label_queries(split, similarities, passages.is_cut, passages.max_length)
        labels.write_parquet(folder / project.slices(split).name)
    write_about(folder, about)


if __name__ == "__main__":
    run(main)
