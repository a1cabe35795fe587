"""Dev queries that GNN-encoder answers at rank 1 and M_de does not, and what informed the passage (Table 5)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True, kw_only=True)
class Found:
    """The queries that one of two systems answers at rank 1 and the other does not.

    Attributes:
        won: columns qid, pid (our passage at rank 1, which is relevant), rank (of this passage in the other system's
            run; null: not in it), other (the other system's passage at rank 1). Null ranks stand first, then the
            ranks from the worst to the best.
        lost: number of queries that only the other system answers at rank 1.
        queries: number of judged queries.
    """

    won: pl.DataFrame
    lost: int
    queries: int


def find_cases(ours: pl.DataFrame, theirs: pl.DataFrame, measure: Callable[[pl.DataFrame], pl.DataFrame]) -> Found:
    """Compare two runs at rank 1.

    Args:
        ours, theirs: columns qid, pid, rank.
        measure: function of a run that gives P@1 of every judged query, as columns qid, value.
    """
    first, first_there = (run.filter(rank=1) for run in (ours, theirs))
    values, values_there = measure(first), measure(first_there)
    right, right_there = (
        run.select("qid", "pid").join(found.filter(value=1), on="qid", how="semi")
        for run, found in ((first, values), (first_there, values_there))
    )
    won = (
        right.join(right_there, on="qid", how="anti")
        .join(theirs.select("qid", "pid", "rank"), on=["qid", "pid"], how="left")
        .join(first_there.select("qid", other="pid"), on="qid", how="left")
        .sort(pl.col("rank"), "qid", descending=[True, False], nulls_last=False)
    )
    lost = right_there.join(right, on="qid", how="anti")
    return Found(won=won, lost=len(lost), queries=len(values))


def informed_by(attention: pl.LazyFrame, passages: Sequence[int]) -> dict[int, pl.DataFrame]:
    """Each passage's rows of an `ATTENTION` table, most attention first.

    Args:
        attention: of a trained network; a passage that no query retrieved has no rows.
    """
    rows = attention.filter(pl.col("passage").is_in(list(passages))).sort("attention", descending=True).collect()
    return {passage: rows.filter(passage=passage) for passage in passages}
