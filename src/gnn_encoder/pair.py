"""PAIR (Ren et al. 2021): the teacher's pseudo-labels (sections 3.3 and 4.6). Its losses are in `train/losses.py`."""

import logging
from typing import Any

import polars as pl

from gnn_encoder.base.errors import UserError
from gnn_encoder.pipeline.params import Thresholds
from gnn_encoder.train.examples import examples_table

log = logging.getLogger(__name__)
THRESHOLDS = ((0.9, 0.1), (0.8, 0.2), (0.7, 0.3), (0.6, 0.4))  # s_pos and s_neg of the paper's Table 5
NOTHING_TO_LABEL = (
    "there are no unlabelled queries: PAIR pre-trains on the labelled ones. Name a file of your own in "
    "data.unlabelled, or let data.train_queries leave some out, whose labels are then hidden"
)


def label_unlabelled(
    scored: pl.DataFrame, hidden: pl.DataFrame, section: Thresholds
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """The EXAMPLES table of the unlabelled queries, and how often their pseudo-labels are right.

    A candidate scored above `positive_threshold` (the paper's s_pos) is a positive, one scored below
    `negative_threshold` (s_neg) is a hard negative, and the others are neither. `scored` has columns query, passage and
    the teacher's score, 0..1; `hidden` are the labels that some of the queries have, columns query, passage.
    """
    s_pos, s_neg = section.positive_threshold, section.negative_threshold
    ordered = scored.sort("query", "passage")
    examples = examples_table(*(ordered.filter(one) for one in (pl.col("score") > s_pos, pl.col("score") < s_neg)))
    if examples.is_empty():
        count, highest = scored["query"].n_unique(), scored["score"].to_numpy().max()
        told = f"no candidate of {count} unlabelled queries scores above it; the highest score is {highest:.2f}"
        cure = "lower it, or raise train_cross_encoder.steps"
        raise UserError(f"pair.positive_threshold is {s_pos}: {told}; {cure}")
    counts = {
        "queries": scored["query"].n_unique(),
        "queries_with_a_pseudo_positive": len(examples),
        "pseudo_positives": int(examples["positives"].list.len().sum()),
        "pseudo_negatives": int(examples["negatives"].list.len().sum()),
    }
    for name, value in counts.items():
        log.info("%s: %d", name.replace("_", " "), value)
    known = scored.join(hidden.select("query").unique(), on="query", how="semi")
    thresholds = dict.fromkeys([(s_pos, s_neg), *THRESHOLDS])
    quality = [accuracy(known, hidden, s_pos=p, s_neg=n) for p, n in thresholds]
    for row in quality:
        log.info("%s", ", ".join(f"{k.replace('_', ' ')} {v:.3g}" if v is not None else k for k, v in row.items()))
    return examples, counts | {"quality": quality}


def accuracy(scored: pl.DataFrame, pairs: pl.DataFrame, *, s_pos: float, s_neg: float) -> dict[str, Any]:
    """How many pseudo-labels there are at a pair of thresholds, and which share of them is right (Table 5).

    A pseudo-positive is right if it is judged relevant, a pseudo-negative if it is not. Judgements are incomplete, so
    that the accuracy of positives is a lower bound and the accuracy of negatives is an upper bound. `scored` (columns
    query, passage, score) are candidates of queries of which `pairs` are judged relevant.
    """
    judged = scored.join(pairs.with_columns(relevant=pl.lit(True)), on=["query", "passage"], how="left")
    relevant = judged["relevant"].fill_null(False)
    found: dict[str, Any] = {"s_pos": s_pos, "s_neg": s_neg}
    for name, chosen, right in (
        ("positives", judged["score"] > s_pos, relevant),
        ("negatives", judged["score"] < s_neg, ~relevant),
    ):
        count = int(chosen.sum())
        found |= {name: count, f"accuracy_of_{name}": int((chosen & right).sum()) / count if count else None}
    return found
