"""Which passages hold one of a query's answers, by the rules of DPR's published code (`qa_validation.py`).

So DPR finds relevant passages of queries that have only answers (Karpukhin et al. 2020, section 4.2). String answers:
text and answer are brought to Unicode NFD, cut into tokens and put into lower case; the text holds the answer if the
answer's tokens stand in it one after another. Regular expressions are searched in the text in NFD, ignoring case. Here
an answer without any token is found nowhere, and an expression that cannot be compiled is an error.
"""

import unicodedata
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import regex
from numpy.typing import NDArray

from gnn_encoder.base.distributed import cores, tqdm
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.judgements import with_rows
from gnn_encoder.base.matrix import Rows
from gnn_encoder.base.tables import PASSAGES, QUERIES, open_table

Kind = Literal["string", "regex"]
TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]")  # DPR's SimpleTokenizer
FLAGS = regex.IGNORECASE | regex.UNICODE | regex.MULTILINE
SECONDS = 1.0  # limit for one expression searching one text: backtracking can take for ever
DEPTH = 100  # passages of BM25 that are looked at for a query
PAIRS_A_PROCESS = 50_000  # seconds of work; fewer pairs take less time than starting another process
Part = tuple[int, Rows, Rows]  # a row group of passages, rows within it, and queries, which make pairs


def prepared(text: str, kind: Kind) -> str:
    """A text as `finder` wants it, once for all queries: in NFD, for string answers as tokens, each between spaces.

    No token holds a space, so that only whole tokens match.
    """
    text = unicodedata.normalize("NFD", text)
    return f" {' '.join(TOKEN.findall(text)).lower()} " if kind == "string" else text


def finder(answers: Sequence[str], kind: Kind, place: str) -> Callable[[str], bool]:
    """A function of a prepared text: whether it holds one of a query's answers. Errors name their `place`."""
    if kind == "string":
        spaced = [tokens for answer in answers if not (tokens := prepared(answer, kind)).isspace()]
        return lambda text: any(answer in text for answer in spaced)
    patterns = [_compiled(answer, place) for answer in answers if answer and not answer.isspace()]
    return lambda text: any(_matches(pattern, text, place) for pattern in patterns)


def _compiled(answer: str, place: str) -> "regex.Pattern[str]":
    try:
        return regex.compile(unicodedata.normalize("NFD", answer), FLAGS)
    except (regex.error, RecursionError, OverflowError) as error:
        raise UserError(f"{place}: {answer!r} is no regular expression ({error}); correct it") from error


def _matches(pattern: "regex.Pattern[str]", text: str, place: str) -> bool:
    try:
        return pattern.search(text, timeout=SECONDS) is not None
    except TimeoutError as error:
        told = f"{pattern.pattern!r} searched one passage for more than {SECONDS:g} s"
        raise UserError(f"{place}: {told}; write it without nested repeats") from error


def judged_by_answers(queries: Path) -> bool:
    """Whether a table's queries have answers; if so, passages are judged by these instead of by qrels."""
    found = pl.scan_parquet(queries).select((pl.col("answers").list.len() > 0).any())
    return bool(found.collect().item())


def answered(pairs: pl.DataFrame, queries: Path, passages: Path, kind: Kind) -> pl.DataFrame:
    """Keep the pairs whose passage's text holds one of the query's answers; titles do not count, as in DPR.

    `pairs` has columns query and passage, row numbers of the tables; other columns are kept. Each passage is tokenised
    once. Each process holds one row group of passages at a time in memory.
    """
    order = pairs["passage"].arg_sort().to_numpy()
    rows, asked = (pairs[name].to_numpy()[order] for name in ("passage", "query"))
    table = open_table(passages, PASSAGES).metadata
    groups = range(table.num_row_groups)
    ends = np.cumsum([0, *(table.row_group(group).num_rows for group in groups)])
    bounds = zip(groups, *(np.searchsorted(rows, some) for some in (ends[:-1], ends[1:])), strict=True)
    parts: list[Part] = [(g, rows[low:high] - ends[g], asked[low:high]) for g, low, high in bounds if low < high]
    match = partial(_match, queries, passages, kind)
    bar = partial(tqdm, total=len(parts), desc="answers", unit=" row groups")
    processes = min(cores(), -(-len(pairs) // PAIRS_A_PROCESS))
    if processes > 1:  # spawned: this process may run threads, whose locks a fork would copy
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            hits = list(bar(pool.map(match, parts)))
    else:
        hits = list(bar(map(match, parts)))
    found = np.zeros(len(pairs), dtype=np.bool_)
    found[order] = np.concatenate([found[:0], *hits])
    return pairs.filter(pl.Series(found))


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


@cache  # once in each process
def _opened(queries: Path, passages: Path, kind: Kind) -> tuple[pq.ParquetFile, list[Callable[[str], bool]]]:
    table = pl.DataFrame(open_table(queries, QUERIES).read(columns=["qid", "answers"]))
    finders = [finder(answers or [], kind, f"{queries}, query {qid!r}, answers") for qid, answers in table.rows()]
    return open_table(passages, PASSAGES), finders


def _match(queries: Path, passages: Path, kind: Kind, part: Part) -> NDArray[np.bool_]:
    """Which pairs hold an answer. *Shape:* (n,)."""
    (file, finders), (group, rows, asked) = _opened(queries, passages, kind), part
    texts = file.read_row_group(group, columns=["text"]).column("text")
    hits = np.zeros(len(rows), dtype=np.bool_)
    before, text = -1, ""
    for i, (row, query) in enumerate(zip(rows.tolist(), asked.tolist(), strict=True)):
        if row != before:
            before, text = row, prepared(texts[row].as_py(), kind)
        hits[i] = finders[query](text)
    return hits
