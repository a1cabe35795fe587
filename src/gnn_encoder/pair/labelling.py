"""PAIR's training examples: the teacher pseudo-labels candidates of queries (PAIR, sections 3.3 and 4.6)."""

import logging
from collections.abc import Callable
from typing import Any

import polars as pl

from gnn_encoder.base.errors import UserError
from gnn_encoder.pipeline.params import Pair
from gnn_encoder.training.denoise import Ranks, denoise, spread
from gnn_encoder.training.examples import examples_from_candidates, examples_table

log = logging.getLogger(__name__)
THRESHOLDS = ((0.9, 0.1), (0.8, 0.2), (0.7, 0.3), (0.6, 0.4))  # s_pos and s_neg of the paper's Table 5
NOTHING_TO_LABEL = (
    "there are no unlabelled queries: PAIR pre-trains on the labelled ones. Name a file of your own in "
    "data.unlabelled, or let data.train_queries leave some out, whose labels are then hidden"
)
# Adds the teacher's column `score` (0..1) to columns query, passage, listed; those that are listed are candidates.
Score = Callable[[pl.DataFrame], pl.DataFrame]
Labelled = tuple[pl.DataFrame, dict[str, Any]]  # an EXAMPLES table, and counts


def label_labelled(
    candidates: pl.DataFrame, pairs: pl.DataFrame, section: Pair, ranks: Ranks, score: Score
) -> Labelled:
    """Examples of the labelled queries, and the counts of `denoise`.

    Without pseudo-labels (the paper's "w/o KD") all candidates that are not labelled are negatives.

    Args:
        candidates: the first retriever's, a CANDIDATES table.
        pairs: labelled pairs, columns query, passage; the teacher scores them too.
    """
    if not section.pseudo_labels:
        return examples_from_candidates(pairs, candidates), {}
    lists = _listed(candidates, ranks)
    others = pairs.join(lists, on=["query", "passage"], how="anti").with_columns(listed=pl.lit(False))
    scored = score(pl.concat([lists, others]).sort("query", "passage"))
    return denoise(scored, pairs, positive_threshold=section.s_pos, negative_threshold=section.s_neg)


def label_unlabelled(
    candidates: pl.DataFrame, hidden: pl.DataFrame, section: Pair, ranks: Ranks, score: Score
) -> Labelled:
    """Examples of the unlabelled queries, and how often their pseudo-labels are right.

    A candidate scored above `pair.s_pos` is a positive, one scored below `pair.s_neg` is a hard negative, and the
    others are neither.

    Args:
        candidates: the first retriever's, a CANDIDATES table.
        hidden: pairs of those of the queries whose labels are hidden, columns query, passage.
    """
    scored = score(_listed(candidates, ranks))
    examples = pseudo_label(scored, s_pos=section.s_pos, s_neg=section.s_neg)
    if examples.is_empty():
        raise UserError(
            f"pair.s_pos is {section.s_pos}: no candidate of {scored['query'].n_unique()} unlabelled queries scores "
            f"above it; the highest score is {scored['score'].to_numpy().max():.2f}; lower pair.s_pos, or train the "
            "teacher longer (pair.teacher)"
        )
    return examples, _judge(scored, examples, hidden, section)


def pseudo_label(scored: pl.DataFrame, *, s_pos: float, s_neg: float) -> pl.DataFrame:
    """Turn scored candidates of unlabelled queries into the EXAMPLES table.

    Args:
        scored: columns query, passage, score (the teacher's, 0..1).
    """
    ordered = scored.sort("query", "passage")
    return examples_table(ordered.filter(pl.col("score") > s_pos), ordered.filter(pl.col("score") < s_neg))


def accuracy(scored: pl.DataFrame, pairs: pl.DataFrame, *, s_pos: float, s_neg: float) -> dict[str, Any]:
    """How many pseudo-labels there are at a pair of thresholds, and which share of them is right (Table 5).

    A pseudo-positive is right if it is judged relevant, a pseudo-negative if it is not. Judgements are incomplete, so
    that the accuracy of positives is a lower bound and the accuracy of negatives is an upper bound.

    Args:
        scored: candidates of queries whose labels are known, columns query, passage, score.
        pairs: judged-relevant pairs of these queries, columns query, passage.
    """
    judged = scored.join(pairs.with_columns(relevant=pl.lit(True)), on=["query", "passage"], how="left")
    relevant = judged["relevant"].fill_null(False)
    positive, negative = judged["score"] > s_pos, judged["score"] < s_neg
    return {
        "s_pos": s_pos,
        "s_neg": s_neg,
        "positives": int(positive.sum()),
        "accuracy_of_positives": _share(positive & relevant, positive),
        "negatives": int(negative.sum()),
        "accuracy_of_negatives": _share(negative & ~relevant, negative),
    }


def _listed(candidates: pl.DataFrame, ranks: Ranks) -> pl.DataFrame:
    """The candidates that the teacher scores."""
    return spread(candidates, ranks).select("query", "passage", listed=pl.lit(True))


def _judge(scored: pl.DataFrame, pseudo: pl.DataFrame, hidden: pl.DataFrame, section: Pair) -> dict[str, Any]:
    """How many pseudo-labels there are, and how often they are right on the queries whose labels are hidden."""
    known = scored.join(hidden.select("query").unique(), on="query", how="semi")
    thresholds = dict.fromkeys([(section.s_pos, section.s_neg), *THRESHOLDS])
    quality = [accuracy(known, hidden, s_pos=p, s_neg=n) for p, n in thresholds]
    counts = {
        "queries": scored["query"].n_unique(),
        "queries_with_a_pseudo_positive": len(pseudo),
        "pseudo_positives": int(pseudo["positives"].list.len().sum()),
        "pseudo_negatives": int(pseudo["negatives"].list.len().sum()),
    }
    for name, value in counts.items():
        log.info("%s: %d", name.replace("_", " "), value)
    for row in quality:
        log.info("%s", ", ".join(f"{k.replace('_', ' ')} {v:.3g}" if v is not None else k for k, v in row.items()))
    return counts | {"quality": quality}


def _share(part: pl.Series, whole: pl.Series) -> float | None:
    count = int(whole.sum())
    return int(part.sum()) / count if count else None
