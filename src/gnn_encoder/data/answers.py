"""Which passages hold one of a query's answers, by the rules of DPR's published code (`qa_validation.py`).

So DPR finds relevant passages of queries that have only answers (Karpukhin et al. 2020, section 4.2). String answers:
text and answer are brought to Unicode NFD, cut into tokens and put into lower case; the text holds the answer if the
answer's tokens stand in it one after another. Regular expressions are searched in the text in NFD, ignoring case. Here
an answer without any token is found nowhere, and an expression that cannot be compiled is an error.
"""

from functools import cache, partial
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
import regex

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.judgements import with_rows
from gnn_encoder.base.tables import PASSAGES, QUERIES, open_table, read_table

Kind = Literal["string", "regex"]
TOKEN = r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]"  # DPR's SimpleTokenizer
SECONDS = 1.0  # limit for one expression searching one text: backtracking can take for ever
DEPTH = 100  # passages of BM25 that are looked at for a query
_compiled = cache(partial(regex.compile, flags=regex.IGNORECASE | regex.UNICODE | regex.MULTILINE))


def _prepared(text: pl.Expr, kind: Kind) -> pl.Expr:
    """Texts or answers in NFD; for string answers as tokens, each between spaces, so that only whole tokens match."""
    text = text.str.normalize("NFD")
    tokens = text.str.extract_all(TOKEN).list.join(" ").str.to_lowercase()
    return pl.format(" {} ", tokens) if kind == "string" else text


def _matches(queries: Path, qid: str, answer: str, text: str) -> bool:
    """Whether an expression, an answer to a query of a table, is found in a text."""
    place = f"{queries}, query {qid!r}, answers: {answer!r}"
    try:
        return _compiled(answer).search(text, timeout=SECONDS) is not None
    except (regex.error, RecursionError, OverflowError) as error:
        raise UserError(f"{place} is no regular expression ({error}); correct it") from error
    except TimeoutError as error:
        told = f"searched one passage for more than {SECONDS:g} s"
        raise UserError(f"{place} {told}; write it without nested repeats") from error


def judged_by_answers(queries: Path) -> bool:
    """Whether a table's queries have answers; if so, passages are judged by these instead of by qrels."""
    found = pl.scan_parquet(queries).select((pl.col("answers").list.len() > 0).any())
    return bool(found.collect().item())


def answered(pairs: pl.DataFrame, queries: Path, passages: Path, kind: Kind) -> pl.DataFrame:
    """Keep the pairs whose passage's text holds one of the query's answers; titles do not count, as in DPR.

    `pairs` has columns query and passage, row numbers of the tables; other columns are kept. One row group of passages
    at a time is in memory.
    """
    listed = read_table(queries, QUERIES).with_row_index("query").explode("answers").drop_nulls("answers")
    answers = listed.select(pl.col("query").cast(pl.Int32), "qid", answer=_prepared(pl.col("answers"), kind))
    answers = answers.filter(pl.col("answer").str.contains(r"\S"))
    for qid, answer in answers.select("qid", "answer").rows() if kind == "regex" else ():
        _matches(queries, qid, answer, "")  # an expression that is none is an error, whatever passages are tried
    wanted = pairs.with_row_index("pair").select("pair", pl.col("query", "passage").cast(pl.Int32)).sort("passage")
    file, hits = open_table(passages, PASSAGES), np.zeros(len(pairs), dtype=np.bool_)
    groups = range(file.num_row_groups)
    firsts = np.cumsum([0, *(file.metadata.row_group(group).num_rows for group in groups)])
    bounds = np.searchsorted(wanted["passage"].to_numpy(), firsts)
    for group in tqdm(groups, desc="answers", unit=" row groups"):
        if len(some := wanted[bounds[group] : bounds[group + 1]]):
            rows = some["passage"].unique(maintain_order=True)
            texts = pl.DataFrame(file.read_row_group(group, columns=["text"]))["text"].gather(rows - firsts[group])
            prepared = texts.to_frame().select(_prepared(pl.col("text"), kind), passage=rows)
            tried = some.join(prepared, on="passage").join(answers, on="query")
            if kind == "string":
                found = tried.select(pl.col("text").str.contains(pl.col("answer"), literal=True)).to_series()
            else:
                cases = tried.select("qid", "answer", "text").rows()
                found = pl.Series([_matches(queries, *case) for case in cases], dtype=pl.Boolean)
            hits[tried["pair"].filter(found).to_numpy()] = True
    return pairs.filter(pl.Series(hits))


def with_answered(
    pairs: pl.DataFrame, retrieved: pl.DataFrame, queries: Path, passages: Path, kind: Kind
) -> pl.DataFrame:
    """Relevant pairs and, if the queries have answers, those of the `retrieved` pairs whose passage holds one."""
    if not judged_by_answers(queries):
        return pairs
    return pl.concat([pairs, answered(retrieved, queries, passages, kind)]).unique()


def best_answered(run: pl.DataFrame, queries: Path, passages: Path, kind: Kind) -> pl.DataFrame:
    """For each query, BM25's best passage that holds one of its answers, as judgements (qid, pid, grade).

    A query is left out when none of BM25's first passages holds an answer. `run` has columns qid, pid, rank.
    """
    top = with_rows(run.filter(pl.col("rank") <= DEPTH), queries, passages)
    hits = answered(top, queries, passages, kind).sort("query", "rank")
    if hits.is_empty():
        cure = "correct the answers, or evaluate.answers, which says what they are"
        raise UserError(f"{queries}: BM25's first {DEPTH} passages hold an answer of no query; {cure}")
    return hits.unique("qid", keep="first", maintain_order=True).select("qid", "pid", grade=pl.lit(1, pl.Int32))
