"""Pseudo-labels by the teacher's scores, and how often they are right (PAIR, sections 3.3 and 4.6)."""

from typing import Any

import polars as pl

from gnn_encoder.core.errors import UserError
from gnn_encoder.pair.params import Pair
from gnn_encoder.training.examples import examples_table

THRESHOLDS = ((0.9, 0.1), (0.8, 0.2), (0.7, 0.3), (0.6, 0.4))  # s_pos and s_neg of the paper's Table 5


def pseudo_label(scored: pl.DataFrame, *, s_pos: float, s_neg: float) -> pl.DataFrame:
    """Turn scored candidates of unlabelled queries into the EXAMPLES table.

    A candidate scored above `s_pos` is a positive, one scored below `s_neg` is a hard negative, and the others are
    neither.

    Args:
        scored: columns query, passage, score (the teacher's, 0..1).
    """
    ordered = scored.sort("query", "passage")
    return examples_table(ordered.filter(pl.col("score") > s_pos), ordered.filter(pl.col("score") < s_neg))


def check_found(scored: pl.DataFrame, labelled: pl.DataFrame, pair: Pair) -> None:
    """Make sure that there is a pseudo-positive to train on.

    Raises:
        UserError: no candidate scored above `pair.s_pos`.
    """
    if labelled.is_empty():
        best = scored["score"].to_numpy().max()
        raise UserError(
            f"pair.s_pos is {pair.s_pos}: no candidate of {scored['query'].n_unique()} unlabelled queries scores "
            f"above it; the highest score is {best:.2f}; lower pair.s_pos, or train the teacher longer (pair.teacher)"
        )


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


def _share(part: pl.Series, whole: pl.Series) -> float | None:
    count = int(whole.sum())
    return int(part.sum()) / count if count else None
