"""Which passages hold one of a query's answers, by the rules of DPR's published code (`qa_validation.py`).

So DPR finds relevant passages of queries that have only answers (Karpukhin et al. 2020, section 4.2): text and answer
are brought to Unicode NFD, cut into tokens and put into lower case; the text holds the answer if the answer's tokens
stand in it one after another. Here an answer without any token is found nowhere.
"""

from pathlib import Path

import numpy as np
import polars as pl

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.judgements import with_rows
from gnn_encoder.base.tables import PASSAGES, QUERIES, open_table, read_table

TOKEN = r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]"  # DPR's SimpleTokenizer
DEPTH = 100  # passages of BM25 that are looked at for a query


def _tokens(text: pl.Expr) -> pl.Expr:
    """The tokens of texts or answers, each between spaces, so that only whole ones match."""
    return pl.format(" {} ", text.str.normalize("NFD").str.extract_all(TOKEN).list.join(" ").str.to_lowercase())


def judged_by_answers(queries: Path) -> bool:
    """Whether a table's queries have answers; if so, passages are judged by these instead of by qrels."""
    found = pl.scan_parquet(queries).select((pl.col("answers").list.len() > 0).any())
    return bool(found.collect().item())


def answered(pairs: pl.DataFrame, queries: Path, passages: Path) -> pl.DataFrame:
    """Keep the pairs whose passage's text holds one of the query's answers; titles do not count, as in DPR.

    `pairs` has columns query and passage, row numbers of the tables; other columns are kept. One row group of passages
    at a time is in memory.
    """
    listed = read_table(queries, QUERIES).with_row_index("query").explode("answers").drop_nulls("answers")
    answers = listed.select(pl.col("query").cast(pl.Int32), answer=_tokens(pl.col("answers")))
    answers = answers.filter(pl.col("answer").str.contains(r"\S"))
    wanted = pairs.with_row_index("pair").select("pair", pl.col("query", "passage").cast(pl.Int32)).sort("passage")
    file, hits = open_table(passages, PASSAGES), np.zeros(len(pairs), dtype=np.bool_)
    groups = range(file.num_row_groups)
    firsts = np.cumsum([0, *(file.metadata.row_group(group).num_rows for group in groups)])
    bounds = np.searchsorted(wanted["passage"].to_numpy(), firsts)
    for group in tqdm(groups, desc="answers", unit=" row groups"):
        if len(some := wanted[bounds[group] : bounds[group + 1]]):
            rows = some["passage"].unique(maintain_order=True)
            texts = pl.DataFrame(file.read_row_group(group, columns=["text"]))["text"].gather(rows - firsts[group])
            of_rows = texts.to_frame().select(_tokens(pl.col("text")), passage=rows)
            tried = some.join(of_rows, on="passage").join(answers, on="query")
            held = tried.filter(pl.col("text").str.contains(pl.col("answer"), literal=True))
            hits[held["pair"].to_numpy()] = True
    return pairs.filter(pl.Series(hits))


def best_answered(run: pl.DataFrame, queries: Path, passages: Path) -> pl.DataFrame:
    """For each query, BM25's best passage that holds one of its answers, as judgements (qid, pid, grade).

    A query is left out when none of BM25's first passages holds an answer. `run` has columns qid, pid, rank.
    """
    top = with_rows(run.filter(pl.col("rank") <= DEPTH), queries, passages)
    hits = answered(top, queries, passages).sort("query", "rank")
    if hits.is_empty():
        raise UserError(f"{queries}: BM25's first {DEPTH} passages hold an answer of no query; correct the answers")
    return hits.unique("qid", keep="first", maintain_order=True).select("qid", "pid", grade=pl.lit(1, pl.Int32))
