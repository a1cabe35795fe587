"""What distinguishes the judged queries of a split, as labels by which they are sliced.

similarity  the third that a query is in by its similarity to the nearest training query
labelled    yes: at least one of its relevant passages is labelled for a training query
cut         yes: at least one of its relevant passages is longer than what the encoder reads
"""

from collections.abc import Callable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.answers.pairs import judged_by_answers
from gnn_encoder.core.errors import UserError
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.rows import Rows
from gnn_encoder.core.storage.tables import read_column
from gnn_encoder.evaluation.labels import CUT, LABELLED, SIMILARITY, About
from gnn_encoder.evaluation.similarity import thirds
from gnn_encoder.pipeline import project


def label_queries(
    split: str, similarities: NDArray[np.float64], is_cut: Callable[[Rows], NDArray[np.bool_]], passage_length: int
) -> tuple[pl.DataFrame, About]:
    """Label the judged queries of a split: column qid, and a column for each property.

    Of queries that answers judge, the relevant passages are those of stage `bm25`, which knows the dev queries
    alone: a query without one has no label, and the test queries have no column that depends on them.

    Args:
        similarities: to the nearest training query. *Shape:* (queries of the split,).
        is_cut: which of some passages are longer than `passage_length`. *Shape:* rows (n,) -> (n,).

    Raises:
        UserError: no query of the split is judged.
    """
    queries = project.queries(split)
    by_answers, known = judged_by_answers(queries), project.POSITIVES if split == "dev" else project.qrels(split)
    pairs = relevant_pairs(queries, known, project.PASSAGES)
    rows = np.arange(len(similarities)) if by_answers else pairs["query"].unique().sort().to_numpy()
    if len(rows) == 0:
        raise UserError(f"{known}: no query has a passage with a grade above 0; there is nothing to measure")
    third, bounds = thirds(similarities[rows])
    table = pl.DataFrame({"qid": pl.Series(read_column(queries, "qid"))[rows], SIMILARITY: third})
    if by_answers and split != "dev":
        return table, About(thirds=bounds, passage_length=passage_length, left_out=(LABELLED, CUT))
    passages = pairs["passage"].to_numpy()
    table = table.with_columns(
        any_passage(rows, pairs["query"], np.isin(passages, labelled_passages())).alias(LABELLED),
        any_passage(rows, pairs["query"], is_cut(passages)).alias(CUT),
    )
    return table, About(thirds=bounds, passage_length=passage_length, left_out=())


def labelled_passages() -> Rows:
    """Rows of the passages that are labelled as relevant for a training query."""
    pairs = relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES)
    return pairs["passage"].unique().to_numpy()


def any_passage(rows: Rows, queries: pl.Series, flags: NDArray[np.bool_]) -> pl.Series:
    """For each query of `rows`: `yes` if one of its passages has the flag, `no` if none has, null without a passage.

    Args:
        queries: the query of each pair of a query and a passage.
        flags: whether the passage of the pair has the flag.

    *Shape:* rows (n,), queries and flags (pairs,) -> (n,).
    """
    found = pl.DataFrame({"query": queries, "flag": flags}).group_by("query").agg(pl.col("flag").any())
    asked = pl.DataFrame({"query": pl.Series(rows, dtype=queries.dtype)})
    flag = asked.join(found, on="query", how="left", maintain_order="left")["flag"]
    return flag.replace_strict({True: "yes", False: "no"}, return_dtype=pl.String)
