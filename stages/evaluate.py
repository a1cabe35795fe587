"""evaluate BRANCH: measures of the branch's systems, their significance against its baseline, tables and figures."""

from pathlib import Path

import numpy as np
import polars as pl

from gnn_encoder.answers.pairs import judged_by_answers
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.runs import read_run
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.encoding.corpus import alone, embed_queries, iterate_queries
from gnn_encoder.evaluation.ceiling import measure_ceiling
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.properties import label_queries, nearest_similarity
from gnn_encoder.evaluation.slices import read_labelled, slice_splits, write_labelled
from gnn_encoder.evaluation.values import compare_with, means_by_system, on_shared_queries
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.judging import claim_of_main, judgements, read_values
from gnn_encoder.pipeline.opening import load_encoder, open_passages, open_queries
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
    means = means_by_system(values, list(parse(section.measures)))
    compared = compare_with(values, tested, {s: branch.baseline for s in systems if s != branch.baseline})
    log_tables(results_table(one, tested) for one in results_of(stage.key, means, {}, compared))
    write_labels(folder / "slices", stage.params)
    sliced = slice_splits(values, read_labelled(folder / "slices"), tested, branch.baseline)
    found: dict[str, object] = {**means, "significance": compared, "slices": sliced}
    if stage.key == MAIN:
        shown = [branch.baseline, MAIN]
        log_tables(split_table(MAIN, one, split, shown) for split, one in sliced.items())
    if CEILING in systems:
        ceilings = measure_ceiling(values, tested, stage.params.seed, base=REFERENCE, ceiling=CEILING)
        log_tables(ceiling_table(one, split) for split, one in ceilings.items())
        found["ceiling"] = ceilings
    write_quality(stage.plots, values, means, tested)
    if stage.key == MAIN:
        found["claim"] = claim = claim_of_main(values, section)
        log_claim(claim)
    for name, value in found.items():
        write_json(stage.metrics / f"{name}.json", value)


def measure(stage: Stage) -> dict[str, pl.DataFrame]:
    """Measure the runs of the branch's systems on both judged splits, and write what each query has.

    Of a system that is judged on a sample, the queries of its run alone count.
    """
    section, found = stage.params.evaluate, dict[str, pl.DataFrame]()
    names = list(parse(section.measures) | parse([section.significance], "evaluate.significance"))
    for system in registry().of_branch(stage.key):
        parts = []
        for split in project.JUDGED:
            ranked = read_run(project.run_file(system, split))
            table = judgements(split, section).measure(ranked, names)
            if registry().is_sampled(system):
                table = table.filter(pl.col("qid").is_in(ranked["qid"].unique().implode()))
            parts.append(table.select(pl.lit(system).alias("system"), pl.lit(split).alias("split"), *table.columns))
        found[system] = pl.concat(parts)
        target = stage.unfinished(project.measured(system).parent) / system / project.VALUES
        target.parent.mkdir(parents=True, exist_ok=True)
        found[system].write_parquet(target)
    return found


def write_labels(folder: Path, params: Params) -> None:
    """Compare the judged queries with the training queries, by M_de, and write a table of labels for each split.

    Of queries that answers judge, the relevant passages are those of stage `bm25`, which knows the dev queries alone.
    """
    encoder, batch_tokens = load_encoder(project.encoder(REFERENCE), params.encoder), params.encoder.batch_tokens
    judged = [embed_queries(encoder, open_queries(project.queries(s), encoder), batch_tokens) for s in project.JUDGED]
    training = iterate_queries(encoder, open_queries(project.queries("train"), encoder), batch_tokens)
    nearest = nearest_similarity(np.concatenate(judged), training)
    labelled = relevant_pairs(*project.tables("train"))["passage"].unique().to_numpy()
    passages, labels = alone(encoder, open_passages(encoder)), {}
    for split, similarities in zip(project.JUDGED, np.split(nearest, [len(judged[0])]), strict=True):
        queries, qrels = project.queries(split), project.qrels(split)
        known = project.POSITIVES if split == "dev" else None if judged_by_answers(queries) else qrels
        labels[split] = label_queries(
            queries,
            known,
            project.PASSAGES,
            labelled=labelled,
            similarities=similarities,
            is_cut=passages.is_cut,
            passage_length=passages.max_length,
        )
    write_labelled(folder, labels)


if __name__ == "__main__":
    run(main)
