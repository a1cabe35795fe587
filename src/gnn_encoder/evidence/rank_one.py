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
from gnn_encoder.evidence.attention_by_kind import labelled_pairs, neighbours, read_attention
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
    judged = measure(ours).join(measure(theirs), on="qid", suffix="_there", validate="1:1")
    won, lost = (judged.filter(value=mine, value_there=1 - mine).select("qid") for mine in (1, 0))
    won = (
        won.join(ours.filter(rank=1).select("qid", "pid"), on="qid")
        .join(theirs.select("qid", "pid", "rank"), on=["qid", "pid"], how="left")
        .join(theirs.filter(rank=1).select("qid", other="pid"), on="qid", how="left")
        .sort(pl.col("rank"), "qid", descending=[True, False], nulls_last=False)
    )
    return AtRankOne(won=won, lost=len(lost), queries=len(judged))


def describe_cases(params: Params) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """How many dev queries are won and lost at rank 1, and all that is shown of the first `evidence.cases` won."""
    ours, theirs = (read_run(project.run_file(system, "dev")) for system in (MAIN, REFERENCE))
    judges = Judgements.of(params.evaluate, *project.tables("dev"))
    found = compare_at_rank_one(ours, theirs, lambda run: judges.measure(run, ["P@1"]))
    shown = with_rows(found.won.head(params.evidence.cases), project.queries("dev"), project.PASSAGES)
    heard = informed_by(read_attention(FULL), shown["passage"].to_list())
    texts = TableRows(project.queries("dev"), QUERIES).take(shown["query"].to_numpy())
    passages = TableRows(project.PASSAGES, PASSAGES)
    labelled = pair_keys(labelled_pairs(), len(passages))
    read = passages.take(shown["passage"].to_numpy())
    cases = [
        {
            "qid": case["qid"],
            "pid": case["pid"],
            "query": query["text"],
            "passage": f"{passage['title']} {passage['text']}".strip(),
            "rank_of_dual_encoder": case["rank"],
            "depth": theirs["rank"].max(),
            "dual_encoder_first": case["other"],
            **_informed(heard[case["passage"]], case["passage"], labelled, len(passages)),
        }
        for case, query, passage in zip(shown.iter_rows(named=True), texts, read, strict=True)
    ]
    return {"queries": found.queries, "won_at_rank_1": len(found.won), "lost_at_rank_1": found.lost}, cases


def informed_by(attention: pl.LazyFrame, passages: list[int]) -> dict[int, pl.DataFrame]:
    """Each passage's rows of an `ATTENTION` table, most attention first; none if no query retrieved it."""
    rows = attention.filter(pl.col("passage").is_in(passages)).sort("attention", descending=True).collect()
    return {passage: rows.filter(passage=passage) for passage in passages}


def _informed(rows: pl.DataFrame, passage: int, labelled: Rows, n_passages: int) -> dict[str, Any]:
    """The training queries of a passage, most attention first, its attention to itself, and its gate."""
    asked = rows.filter(pl.col("query") >= 0)
    known = contains(labelled, asked["query"].to_numpy().astype(np.int64) * n_passages + passage)
    columns = zip(neighbours(asked["query"]), asked["attention"], known.tolist(), strict=True)
    return {
        "informed_by": [{"query": text, "attention": value, "labelled": own} for text, value, own in columns],
        "attention_to_itself": rows.filter(query=-1)["attention"].to_list()[0] if len(rows) else 1.0,
        "gate": rows["gate"][0] if len(rows) else None,
    }
