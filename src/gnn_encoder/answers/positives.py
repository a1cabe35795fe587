"""Relevant passages of questions that have only answers, as DPR finds them (Karpukhin et al. 2020, section 4.2)."""

from pathlib import Path

import polars as pl

from gnn_encoder.answers.matching import Kind
from gnn_encoder.answers.pairs import answered
from gnn_encoder.core.errors import UserError
from gnn_encoder.core.judgements import with_rows

DEPTH = 100  # passages of BM25's that one may be among


def best_answered(run: pl.DataFrame, questions: Path, passages: Path, kind: Kind) -> pl.DataFrame:
    """BM25's highest-ranked passage that holds an answer, as judgements (qid, pid, grade), of questions that have one.

    Args:
        run: BM25's, columns qid, pid, rank.

    Raises:
        UserError: no question has one, or what `answered` raises.
    """
    top = with_rows(run.filter(pl.col("rank") <= DEPTH), questions, passages)
    hits = answered(top, questions, passages, kind).sort("query", "rank")
    if hits.is_empty():
        raise UserError(
            f"{questions}: of no question do BM25's first {DEPTH} passages hold an answer; correct the answers, or "
            "evaluate.answers, which says what they are"
        )
    return hits.unique("qid", keep="first", maintain_order=True).select("qid", "pid", grade=pl.lit(1, pl.Int32))
