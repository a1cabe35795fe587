"""pair_label: pseudo-labels by M_ce, for all queries (PAIR, section 3.3, Table 5)."""

import logging
import shutil
from typing import Any

import polars as pl
import pyarrow as pa

from gnn_encoder.base import distributed
from gnn_encoder.base.files import write_json
from gnn_encoder.base.judgements import relevant_pairs
from gnn_encoder.base.tables import EXAMPLES, UNLABELLED, count_rows, write_table
from gnn_encoder.pair import NOTHING_TO_LABEL, label_unlabelled
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.text.corpus import load_encoder
from gnn_encoder.train.candidates import denoise, mine_candidates, read_ranks, score_candidates
from gnn_encoder.train.examples import examples_from_candidates


def main(stage: Stage) -> None:
    """Write what pre-training and fine-tuning learn from; queries.parquet and own.parquet are of pre-training."""
    params, pair, queries = stage.params, stage.params.pair, project.queries("train")
    pairs, counts = relevant_pairs(*project.tables("train")), dict[str, int]()
    if pair.pseudo_labels:
        candidates = read_ranks(project.CANDIDATES, end=params.denoise.range_max)
        scored = score_candidates(candidates, queries, stage.work / "labelled", params)
        examples, counts = denoise(scored, pairs, pair)
    else:  # all candidates that are not labelled are negatives (the paper's "w/o KD")
        examples = examples_from_candidates(pairs, read_ranks(project.CANDIDATES))
    pretraining, quality = examples, dict[str, Any]()
    if pair.pseudo_labels and count_rows(project.queries(UNLABELLED)):
        queries = project.queries(UNLABELLED)
        encoder, matrix = load_encoder(project.RETRIEVER, params.encoder), project.embeddings("retriever")
        found = mine_candidates(encoder, matrix, UNLABELLED, stage.work / "mined", params, "denoise.range_max")
        candidates = pl.DataFrame(pa.concat_tables(found))
        hidden = relevant_pairs(*project.tables(UNLABELLED))
        scored = score_candidates(candidates, queries, stage.work / "unlabelled", params)
        pretraining, quality = label_unlabelled(scored, hidden, pair)
    elif pair.pseudo_labels:
        logging.getLogger(__name__).info(NOTHING_TO_LABEL)
    write_table(stage.scratch / "finetune.parquet", EXAMPLES, [examples.to_arrow()])
    write_table(stage.scratch / "pretrain.parquet", EXAMPLES, [pretraining.to_arrow()])
    if distributed.is_first():
        shutil.copyfile(queries, stage.scratch / "queries.parquet")
        shutil.copyfile(project.IDENTICAL / queries.name, stage.scratch / "own.parquet")
    write_json(stage.scratch / "statistics.json", {"unlabelled": quality, "labelled": counts})


if __name__ == "__main__":
    run(main, shared=True)
