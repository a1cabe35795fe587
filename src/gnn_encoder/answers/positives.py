"""Relevant passages of queries that have only answers, as DPR finds them (Karpukhin et al. 2020, section 4.2)."""

from pathlib import Path

import polars as pl

from gnn_encoder.answers.matching import Kind
from gnn_encoder.answers.pairs import answered
from gnn_encoder.core.errors import UserError
from gnn_encoder.core.judgements import with_rows

DEPTH = 100  # passages of BM25 that are looked at for each query


def best_answered(run: pl.DataFrame, queries: Path, passages: Path, kind: Kind) -> pl.DataFrame:
    """For each query, BM25's best passage that holds one of its answers, as judgements (qid, pid, grade).

    A query is left out when none of BM25's first passages holds an answer.

    Args:
        run: BM25's run, columns qid, pid, rank.

    Raises:
        UserError: no passage holds an answer of any query, or what `answered` raises.
    """
    top = with_rows(run.filter(pl.col("rank") <= DEPTH), queries, passages)
    hits = answered(top, queries, passages, kind).sort("query", "rank")
    if hits.is_empty():
        raise UserError(
            f"{queries}: BM25's first {DEPTH} passages hold an answer of no query; correct the answers, or "
            "evaluate.answers, which says what they are"
        )
    return hits.unique("qid", keep="first", maintain_order=True).select("qid", "pid", grade=pl.lit(1, pl.Int32))
