"""Denoised training data (section 3.4, after RocketQA): M_ce decides which candidates are positives and negatives."""

import logging

import numpy as np
import polars as pl

log = logging.getLogger(__name__)


def spread(candidates: pl.DataFrame, *, range_min: int, range_max: int, count: int) -> pl.DataFrame:
    """`count` candidates per query, evenly spread over the ranks from `range_min` to `range_max` - 1.

    The candidates at the very top are the likeliest to be unlabelled positives. A `range_min` above 0 leaves them out.
    """
    width = range_max - range_min
    ranks = range_min + np.arange(min(count, width)) * width // min(count, width)
    return candidates.filter(pl.col("rank").is_in(ranks.astype(np.int16).tolist()))


def denoise(
    scored: pl.DataFrame, pairs: pl.DataFrame, *, positive_threshold: float, negative_threshold: float
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Turn scored candidates into the EXAMPLES table.

    Positives are the labelled passages and candidates scored above `positive_threshold`; negatives are unlabelled
    candidates scored below `negative_threshold`. A query without such a negative gets its lowest-scored unlabelled
    candidate that is not a positive; if there is none, its list of negatives is empty, and training draws random
    passages instead. A query without positives is left out.

    Args:
        scored: columns query, passage, score (M_ce's, 0..1).
        pairs: labelled pairs, columns query, passage.

    Returns:
        The table, and counts of queries, positives and negatives.
    """
    unlabelled = scored.join(pairs, on=["query", "passage"], how="anti")
    found = unlabelled.filter(pl.col("score") > positive_threshold).select("query", "passage")
    hard = unlabelled.filter(pl.col("score") < negative_threshold).select("query", "passage")
    rest = unlabelled.filter(pl.col("score") <= positive_threshold).join(hard, on="query", how="anti")
    fallback = (
        rest.sort("query", "score", "passage").group_by("query", maintain_order=True).first().select("query", "passage")
    )
    positives = _lists(pl.concat([pairs, found]), "positives")
    negatives = _lists(pl.concat([hard, fallback]), "negatives")
    table = (
        positives.join(negatives, on="query", how="left").with_columns(pl.col("negatives").fill_null([])).sort("query")
    )
    queries = scored["query"].n_unique()
    counts = {
        "queries": len(table),
        "queries_without_positive_left_out": queries - scored.join(table, on="query", how="semi")["query"].n_unique(),
        "queries_given_their_lowest_candidate_as_negative": len(fallback),
        "queries_without_negative": int((table["negatives"].list.len() == 0).sum()),
        "labelled_positives": len(pairs),
        "denoised_positives": len(found),
        "hard_negatives": len(hard),
        "candidates_between_the_thresholds": len(unlabelled) - len(found) - len(hard),
    }
    return table, counts


def _lists(pairs: pl.DataFrame, name: str) -> pl.DataFrame:
    return pairs.sort("query", "passage").group_by("query", maintain_order=True).agg(pl.col("passage").alias(name))
