"""PAIR (Ren et al. 2021): the teacher's pseudo-labels (sections 3.3 and 4.6), and what Figure 4 is drawn from.

Its passage-centric loss is `train/losses.py`.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.judgements import with_rows
from gnn_encoder.data.answers import DEPTH, Kind, answered, judged_by_answers
from gnn_encoder.pipeline.params import Denoise, Pair
from gnn_encoder.train.candidates import denoise, spread
from gnn_encoder.train.examples import examples_from_candidates, examples_table

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
    candidates: pl.DataFrame, pairs: pl.DataFrame, section: Pair, ranks: Denoise, score: Score
) -> Labelled:
    """Examples of the labelled queries, and the counts of `denoise`.

    Without pseudo-labels (the paper's "w/o KD") all candidates that are not labelled are negatives.

    Args:
        candidates: the first retriever's, a CANDIDATES table.
        pairs: labelled pairs, columns query, passage; the teacher scores them too.
        ranks: says which candidates are scored.
    """
    if not section.pseudo_labels:
        return examples_from_candidates(pairs, candidates), {}
    lists = _listed(candidates, ranks)
    others = pairs.join(lists, on=["query", "passage"], how="anti").with_columns(listed=pl.lit(False))
    scored = score(pl.concat([lists, others]).sort("query", "passage"))
    return denoise(scored, pairs, positive_threshold=section.s_pos, negative_threshold=section.s_neg)


def label_unlabelled(
    candidates: pl.DataFrame, hidden: pl.DataFrame, section: Pair, ranks: Denoise, score: Score
) -> Labelled:
    """Examples of the unlabelled queries, and how often their pseudo-labels are right.

    A candidate scored above `pair.s_pos` is a positive, one scored below `pair.s_neg` is a hard negative, and the
    others are neither.

    Args:
        candidates, ranks: as in `label_labelled`.
        hidden: pairs of those of the queries whose labels are hidden, columns query, passage.
    """
    scored = score(_listed(candidates, ranks))
    positive, negative = pl.col("score") > section.s_pos, pl.col("score") < section.s_neg
    ordered = scored.sort("query", "passage")
    examples = examples_table(ordered.filter(positive), ordered.filter(negative))
    if examples.is_empty():
        raise UserError(
            f"pair.s_pos is {section.s_pos}: no candidate of {scored['query'].n_unique()} unlabelled queries scores "
            f"above it; the highest score is {scored['score'].to_numpy().max():.2f}; lower pair.s_pos, or train the "
            "teacher longer (pair.teacher)"
        )
    counts = {
        "queries": scored["query"].n_unique(),
        "queries_with_a_pseudo_positive": len(examples),
        "pseudo_positives": int(examples["positives"].list.len().sum()),
        "pseudo_negatives": int(examples["negatives"].list.len().sum()),
    }
    for name, value in counts.items():
        log.info("%s: %d", name.replace("_", " "), value)
    known = scored.join(hidden.select("query").unique(), on="query", how="semi")
    thresholds = dict.fromkeys([(section.s_pos, section.s_neg), *THRESHOLDS])
    quality = [accuracy(known, hidden, s_pos=p, s_neg=n) for p, n in thresholds]
    for row in quality:
        log.info("%s", ", ".join(f"{k.replace('_', ' ')} {v:.3g}" if v is not None else k for k, v in row.items()))
    return examples, counts | {"quality": quality}


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
    found: dict[str, Any] = {"s_pos": s_pos, "s_neg": s_neg}
    for name, chosen, right in (
        ("positives", judged["score"] > s_pos, relevant),
        ("negatives", judged["score"] < s_neg, ~relevant),
    ):
        count = int(chosen.sum())
        found |= {name: count, f"accuracy_of_{name}": int((chosen & right).sum()) / count if count else None}
    return found


def _listed(candidates: pl.DataFrame, ranks: Denoise) -> pl.DataFrame:
    """The candidates that the teacher scores."""
    chosen = spread(candidates, ranks.range_max, ranks.candidates)
    return chosen.select("query", "passage", listed=pl.lit(True))


def similarities(
    queries: NDArray[np.floating[Any]], positives: NDArray[np.floating[Any]], negatives: NDArray[np.floating[Any]]
) -> dict[str, float]:
    """Mean and standard deviation of s(p+, q) and s(p+, p-) over triples of a query, a positive and a negative.

    *Shape:* (n, d) each; row i belongs to triple i.
    """
    found = dict[str, float]()
    for name, others in (("s(p+,q)", queries), ("s(p+,p-)", negatives)):
        products = np.einsum("nd,nd->n", positives, others)
        found |= {name: float(products.mean()), f"{name} std": float(products.std())}
    return found


def triples(pairs: pl.DataFrame, retrieved: pl.DataFrame) -> pl.DataFrame:
    """Every relevant pair, together with a hard negative: the query's first retrieved passage that is not relevant.

    Args:
        pairs: judged-relevant pairs, columns query, passage.
        retrieved: columns query, passage, rank.

    Returns:
        Columns query, passage, negative; queries without a negative are left out.
    """
    negatives = (
        retrieved.join(pairs, on=["query", "passage"], how="anti")
        .sort("query", "rank")
        .group_by("query", maintain_order=True)
        .agg(pl.col("passage").first().alias("negative"))
    )
    return pairs.join(negatives, on="query").sort("query", "passage")


def not_answering(run: pl.DataFrame, queries: Path, passages: Path, kind: Kind) -> pl.DataFrame:
    """A run by rows of the tables: columns query, passage, rank.

    Where answers judge the queries, passages that hold one are left out, and those beyond the first `DEPTH`.
    """
    if not judged_by_answers(queries):
        return with_rows(run, queries, passages).select("query", "passage", "rank")
    rows = with_rows(run.filter(pl.col("rank") <= DEPTH), queries, passages).select("query", "passage", "rank")
    return rows.join(answered(rows, queries, passages, kind), on=["query", "passage"], how="anti")
