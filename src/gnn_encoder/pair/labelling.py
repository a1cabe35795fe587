"""PAIR's training examples: the teacher pseudo-labels candidates of labelled and unlabelled queries (section 3.3)."""

import logging
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.records import TARGETS, UNLABELLED
from gnn_encoder.core.storage.tables import candidates_table, read_candidates
from gnn_encoder.index.exact import exact_top_k
from gnn_encoder.pair.params import Pair
from gnn_encoder.pair.pseudo_labels import THRESHOLDS, accuracy, check_found, pseudo_label
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.opening import embed_table
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.teaching import open_dev_lists, open_scorers
from gnn_encoder.training.denoise import Ranks, denoise, spread
from gnn_encoder.training.examples import examples_from_candidates
from gnn_encoder.training.lists import score_lists

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Labelling:
    """What some queries train with.

    Attributes:
        examples: an EXAMPLES table.
        targets: a TARGETS table, the teacher's log odds of all passages that it scored.
        statistics: counts, and how often pseudo-labels are right.
    """

    examples: pl.DataFrame
    targets: pl.DataFrame
    statistics: dict[str, Any]


def label_labelled(params: Params, teacher: Path, work: Path) -> Labelling:
    """Examples of the labelled queries, and the counts of `denoise`.

    Without pseudo-labels (the paper's "w/o KD") all candidates that are not labelled are negatives, and there are
    neither targets nor counts.
    """
    pair = params.pair
    pairs = relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES)
    candidates = pl.DataFrame(read_candidates(project.CANDIDATES))
    if not pair.pseudo_labels:
        return Labelling(examples_from_candidates(pairs, candidates), pl.DataFrame(TARGETS.empty_table()), {})
    scored = _score(candidates, project.queries("train"), params, teacher, work, pairs)
    table, counts = denoise(scored, pairs, positive_threshold=pair.s_pos, negative_threshold=pair.s_neg)
    return Labelling(table, _targets(scored), counts)


def label_unlabelled(queries: Path, params: Params, teacher: Path, work: Path) -> Labelling:
    """Examples of the unlabelled queries, and how often their pseudo-labels are right.

    Args:
        queries: the table of the unlabelled queries.
        teacher: folder of the cross-encoder that labels.

    Raises:
        UserError: no candidate scored above `pair.s_pos`.
    """
    pair = params.pair
    asked = embed_table("retriever", queries, params.encoder)
    found = exact_top_k(project.embeddings("retriever"), asked, pair.depth, name="pair.depth")
    scored = _score(pl.DataFrame(candidates_table(*found)), queries, params, teacher, work)
    examples = pseudo_label(scored, s_pos=pair.s_pos, s_neg=pair.s_neg)
    check_found(scored, examples, pair)
    return Labelling(examples, _targets(scored), _judge(scored, examples, pair))


def _targets(scored: pl.DataFrame) -> pl.DataFrame:
    return scored.select("query", "passage", logit="combined").sort("query", "passage")


def _score(
    candidates: pl.DataFrame,
    queries: Path,
    params: Params,
    teacher: Path,
    work: Path,
    labelled: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """`pair.candidates` of each query's first `pair.depth` candidates, and its labelled passages, scored."""
    ranks = Ranks(0, params.pair.depth, params.pair.candidates)
    lists = spread(candidates, ranks).select("query", "passage", listed=pl.lit(True))
    if labelled is not None:
        others = labelled.join(lists, on=["query", "passage"], how="anti").with_columns(listed=pl.lit(False))
        lists = pl.concat([lists, others]).sort("query", "passage")
    return score_lists(
        lists,
        queries,
        work,
        scorers=open_scorers(teacher, (params.pair.teacher or params.train_cross_encoder).max_length, params),
        section=params.teacher,
        dev=partial(open_dev_lists, ranks, params),
        title="pair_label",
    )


def _judge(scored: pl.DataFrame, pseudo: pl.DataFrame, pair: Pair) -> dict[str, Any]:
    """How many pseudo-labels there are, and how often they are right on the queries whose labels are hidden."""
    pairs = relevant_pairs(project.queries(UNLABELLED), project.qrels(UNLABELLED), project.PASSAGES)
    # The queries with hidden labels stand first in the table of unlabelled queries, and so have the same rows in both.
    known = scored.join(pairs.select("query").unique(), on="query", how="semi")
    thresholds = dict.fromkeys([(pair.s_pos, pair.s_neg), *THRESHOLDS])
    quality = [accuracy(known, pairs, s_pos=p, s_neg=n) for p, n in thresholds]
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
