"""pair_label: the teacher's pseudo-labels of unlabelled and of labelled questions (PAIR, section 3.3, Table 5)."""

import logging
from pathlib import Path
from typing import Any

import polars as pl

from gnn_encoder.core import distributed, project
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.params import Params, load_params
from gnn_encoder.core.records import EXAMPLES, UNLABELLED
from gnn_encoder.core.stage import WORK, output, run
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.core.storage.tables import candidates_table, read_candidates, write_table
from gnn_encoder.pair.pseudo_labels import THRESHOLDS, accuracy, check_found, pseudo_label
from gnn_encoder.pair.questions import own_file, write_questions
from gnn_encoder.retrieval import top_passages
from gnn_encoder.teacher import score_candidates
from gnn_encoder.training.denoise import denoise, spread
from gnn_encoder.training.examples import examples_from_candidates

log = logging.getLogger(__name__)
QUESTIONS = "questions.parquet"


def main() -> None:
    """Score candidates of both kinds of question and apply the thresholds: examples of both stages of training."""
    params = load_params()
    pair = params.pair
    hidden, own = project.queries(UNLABELLED), own_file(pair.unlabelled)
    inputs = [
        *(project.PASSAGES, project.queries("train"), project.qrels("train"), hidden, project.qrels(UNLABELLED)),
        *(project.RETRIEVER, project.embeddings("retriever"), project.CANDIDATES, project.PAIR_TEACHER),
        *([own] if own else []),
    ]
    used = {"unlabelled", "depth", "candidates", "s_pos", "s_neg", "pseudo_labels"}
    with output(project.PAIR_LABELS, inputs, {"pair": pair.model_dump(include=used)}) as scratch:
        if distributed.is_first():
            write_questions(scratch / QUESTIONS, hidden, own)
        distributed.barrier()
        labelled, counts = label_labelled(params, scratch)
        pretraining, quality = labelled, {}
        if pair.pseudo_labels:
            scored = score_unlabelled(params, scratch)
            pretraining = pseudo_label(scored, s_pos=pair.s_pos, s_neg=pair.s_neg)
            check_found(scored, pretraining, pair)
            quality = judge(scored, pretraining, pair)
        if distributed.is_first():
            write_table(scratch / "finetune.parquet", EXAMPLES, [labelled.to_arrow()])
            write_table(scratch / "pretrain.parquet", EXAMPLES, [pretraining.to_arrow()])
            write_json(scratch / "statistics.json", {"unlabelled": quality, "labelled": counts})


def label_labelled(params: Params, scratch: Path) -> tuple[pl.DataFrame, dict[str, int]]:
    """Examples of the labelled questions; without pseudo-labels (the paper's w/o KD) candidates are negatives as is."""
    pairs = relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES)
    candidates = pl.DataFrame(read_candidates(project.CANDIDATES / "candidates.parquet"))
    if not params.pair.pseudo_labels:
        return examples_from_candidates(pairs, candidates), {}
    chosen = spread_candidates(candidates, params).join(pairs, on=["query", "passage"], how="anti")
    scored = score(chosen.sort("query", "passage"), project.queries("train"), params, scratch / WORK / "labelled")
    pair = params.pair
    return denoise(scored, pairs, positive_threshold=pair.s_pos, negative_threshold=pair.s_neg)


def score_unlabelled(params: Params, scratch: Path) -> pl.DataFrame:
    """The first retriever's candidates of the unlabelled questions, scored: columns query, passage, score."""
    questions = scratch / QUESTIONS
    found = top_passages("retriever", questions, params.pair.depth, params, section="pair", parameter="depth")
    chosen = spread_candidates(pl.DataFrame(candidates_table(*found)), params)
    return score(chosen, questions, params, scratch / WORK / "unlabelled")


def spread_candidates(candidates: pl.DataFrame, params: Params) -> pl.DataFrame:
    """`pair.candidates` a question, over the first `pair.depth`: columns query, passage."""
    pair = params.pair
    chosen = spread(candidates, range_min=0, range_max=pair.depth, count=pair.candidates)
    return chosen.select("query", "passage")


def score(candidates: pl.DataFrame, questions: Path, params: Params, folder: Path) -> pl.DataFrame:
    """Add the teacher's scores."""
    settings = params.pair.teacher or params.train_cross_encoder
    return score_candidates(
        candidates,
        questions,
        folder,
        model=project.PAIR_TEACHER,
        max_length=settings.max_length,
        encoder=params.encoder,
    )


def judge(scored: pl.DataFrame, pseudo: pl.DataFrame, pair: Any) -> dict[str, Any]:
    """How many pseudo-labels there are, and how often they are right on the questions whose labels are hidden."""
    pairs = relevant_pairs(project.queries(UNLABELLED), project.qrels(UNLABELLED), project.PASSAGES)
    # The hidden questions come first in the table of unlabelled ones, in their own table's order.
    known = scored.join(pairs.select("query").unique(), on="query", how="semi")
    thresholds = dict.fromkeys([(pair.s_pos, pair.s_neg), *THRESHOLDS])
    quality = [accuracy(known, pairs, s_pos=p, s_neg=n) for p, n in thresholds]
    counts = {
        "questions": scored["query"].n_unique(),
        "questions_with_a_pseudo_positive": len(pseudo),
        "pseudo_positives": int(pseudo["positives"].list.len().sum()),
        "pseudo_negatives": int(pseudo["negatives"].list.len().sum()),
    }
    for name, value in counts.items():
        log.info("%s: %d", name.replace("_", " "), value)
    for row in quality:
        log.info("%s", ", ".join(f"{k.replace('_', ' ')} {v:.3g}" if v is not None else k for k, v in row.items()))
    return counts | {"quality": quality}


if __name__ == "__main__":
    run(main)
