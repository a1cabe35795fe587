"""Denoised training data (section 3.4, after RocketQA): the teacher tells positives from hard negatives."""

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base.tables import CANDIDATES, open_table
from gnn_encoder.training.examples import examples_table

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ranks:
    """Which of a query's candidates are scored: `count` of the ranks `first` to `last` - 1; 0 is the best."""

    first: int
    last: int
    count: int


def read_top(path: Path, ranks: int | None) -> pl.DataFrame:
    """The first `ranks` candidates of each query, from a CANDIDATES table that may hold many more; None: all."""
    open_table(path, CANDIDATES)
    table = pl.scan_parquet(path)
    return (table if ranks is None else table.filter(pl.col("rank") < ranks)).collect()


def spread(candidates: pl.DataFrame, ranks: Ranks) -> pl.DataFrame:
    """The candidates at these ranks: most from the top, ever fewer below.

    The top holds most of the relevant passages, labelled or not, and of the negatives that are hard. Ranks are evenly
    spread on a logarithmic scale: 8 of the first 50 are 0, 1, 2, 4, 8, 15, 28, 49.
    """
    chosen = ranks.first + log_spaced(ranks.last - ranks.first, ranks.count)
    return candidates.filter(pl.col("rank").is_in(chosen.astype(np.int16).tolist()))


def log_spaced(width: int, count: int) -> NDArray[np.int64]:
    """At most `count` of the numbers 0 to `width` - 1, the first and the last included, evenly spread in logarithm."""
    ranks = np.arange(min(count, width))
    wanted = np.rint(np.geomspace(1, width, len(ranks))).astype(np.int64) - 1 if count > 1 else ranks
    # Near the top the steps are below 1: each number is at least one above that before it.
    return np.maximum(wanted, ranks)


def denoise(
    scored: pl.DataFrame,
    pairs: pl.DataFrame,
    *,
    positive_threshold: float,
    negative_threshold: float,
    relative: float | None = None,
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Turn scored candidates into the EXAMPLES table, with counts of queries, positives and negatives.

    Positives are the labelled passages and candidates scored above `positive_threshold`; negatives are unlabelled
    candidates scored below `negative_threshold`. A query without such a negative gets its lowest-scored unlabelled
    candidate that is not a positive, if there is one. A query none of whose passages is scored has null for negatives.

    Args:
        scored: columns query, passage, score (the teacher's, 0..1).
        pairs: labelled pairs, columns query, passage; those that `scored` holds are what `relative` reads.
        relative: a negative scores below this share of its query's best labelled passage, instead of below
            `negative_threshold` (positive-aware mining: de Souza P. Moreira et al. 2024, arXiv:2407.15831), and never
            above `positive_threshold`. Queries whose labelled passages `scored` does not hold keep the threshold.
    """
    unlabelled = scored.join(pairs, on=["query", "passage"], how="anti")
    found = unlabelled.filter(pl.col("score") > positive_threshold).select("query", "passage")
    below = pl.lit(negative_threshold)
    if relative is not None:
        best = scored.join(pairs, on=["query", "passage"], how="semi").group_by("query").agg(best=pl.col("score").max())
        unlabelled = unlabelled.join(best, on="query", how="left")
        share = pl.min_horizontal(relative * pl.col("best"), positive_threshold)
        below = pl.when(pl.col("best").is_null()).then(negative_threshold).otherwise(share)
    hard = unlabelled.filter(pl.col("score") < below).select("query", "passage")
    rest = unlabelled.filter(pl.col("score") <= positive_threshold).join(hard, on="query", how="anti")
    fallback = (
        rest.sort("query", "score", "passage").group_by("query", maintain_order=True).first().select("query", "passage")
    )
    table = examples_table(*(pl.concat(both).sort("query", "passage") for both in ((pairs, found), (hard, fallback))))
    asked = pl.col("query").is_in(scored["query"].unique().implode())
    table = table.with_columns(negatives=pl.when(asked).then("negatives"))
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
