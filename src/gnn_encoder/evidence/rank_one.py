"""Dev queries that GNN-encoder answers at rank 1 and M_de does not, and what informed the passage (Table 5)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from gnn_encoder.core.judgements import contains, pair_keys, with_rows
from gnn_encoder.core.records import PASSAGES, QUERIES
from gnn_encoder.core.rows import Rows
from gnn_encoder.core.runs import read_run
from gnn_encoder.evaluation.judge import Judgements
from gnn_encoder.evidence.attention_by_kind import labelled_pairs, read_attention, texts_of
from gnn_encoder.evidence.params import FULL
from gnn_encoder.index.search import TableRows
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.systems import MAIN, REFERENCE


@dataclass(frozen=True, kw_only=True)
class AtRankOne:
    """The queries that one of two systems answers at rank 1 and the other does not.

    Attributes:
        won: columns qid, pid (our passage at rank 1, which is relevant), rank (of this passage in the other system's
            run; null: not in it), other (the other system's passage at rank 1). Null ranks stand first, then the
            ranks from the worst to the best.
    """

    won: pl.DataFrame
    lost: int  # queries that only the other system answers at rank 1
    queries: int  # judged ones


def compare_at_rank_one(
    ours: pl.DataFrame, theirs: pl.DataFrame, measure: Callable[[pl.DataFrame], pl.DataFrame]
) -> AtRankOne:
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
    return AtRankOne(won=won, lost=len(lost), queries=len(values))


def describe_cases(params: Params) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """How many dev queries are won and lost at rank 1, and all that is shown of the first `evidence.cases` won."""
    ours, theirs = (read_run(project.run_file(system, "dev")) for system in (MAIN, REFERENCE))
    found = compare_at_rank_one(
        ours, theirs, lambda run: Judgements.of(params.evaluate, *project.tables("dev")).measure(run, ["P@1"])
    )
    depth = theirs["rank"].max()
    shown = with_rows(found.won.head(params.evidence.cases), project.queries("dev"), project.PASSAGES)
    heard = informed_by(read_attention(FULL), shown["passage"].to_list())
    queries, passages = TableRows(project.queries("dev"), QUERIES), TableRows(project.PASSAGES, PASSAGES)
    labelled = pair_keys(labelled_pairs(), len(passages))
    cases = []
    for case in shown.iter_rows(named=True):
        asked, row = case.pop("query"), case.pop("passage")
        (query,), (passage,) = queries.take(np.array([asked])), passages.take(np.array([row]))
        texts = {"query": query["text"], "passage": f"{passage['title']} {passage['text']}".strip()}
        ranks = {"rank_of_dual_encoder": case["rank"], "depth": depth, "dual_encoder_first": case["other"]}
        cases.append(case | texts | ranks | _informed(heard[row], row, labelled, len(passages)))
    return {"queries": found.queries, "won_at_rank_1": len(found.won), "lost_at_rank_1": found.lost}, cases


def informed_by(attention: pl.LazyFrame, passages: list[int]) -> dict[int, pl.DataFrame]:
    """Each passage's rows of an `ATTENTION` table, most attention first; none if no query retrieved it."""
    rows = attention.filter(pl.col("passage").is_in(passages)).sort("attention", descending=True).collect()
    return {passage: rows.filter(passage=passage) for passage in passages}


def _informed(rows: pl.DataFrame, passage: int, labelled: Rows, n_passages: int) -> dict[str, Any]:
    """The training queries of a passage, most attention first, its attention to itself, and its gate."""
    asked = rows.filter(pl.col("query") >= 0)
    known = contains(labelled, asked["query"].to_numpy().astype(np.int64) * n_passages + passage)
    columns = zip(texts_of(asked["query"]), asked["attention"], known.tolist(), strict=True)
    return {
        "informed_by": [{"query": text, "attention": value, "labelled": own} for text, value, own in columns],
        "attention_to_itself": rows.filter(query=-1)["attention"].to_list()[0] if len(rows) else 1.0,
        "gate": rows["gate"][0] if len(rows) else None,
    }
