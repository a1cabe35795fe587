"""TREC runs: one line a retrieved passage, `qid Q0 pid rank score tag`, gzip."""

import gzip
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl

from gnn_encoder.base import distributed
from gnn_encoder.base.errors import UserError, shorten
from gnn_encoder.base.files import BYTE_ORDER_MARK, open_binary, without_marks
from gnn_encoder.base.matrix import Rows, Scores
from gnn_encoder.base.tables import read_column

QUERIES_AT_A_TIME = 64  # written together
RUN = pl.Schema({"qid": pl.String(), "pid": pl.String(), "rank": pl.Int32(), "score": pl.Float64()})
HEADER = b"qid Q0 pid rank score tag more"  # what a line has; no line has `more`
UNEVEN = b"\t", b"\r", b"\v", b"\f", b"  ", b" \n", b"\n ", b"\n\n"  # what fields one blank apart have not
FORM = "a line is `qid Q0 pid rank score tag` with a rank from 1 and a finite score"


def write_ranking(path: Path, ranking: tuple[Rows, Scores], queries: Path, passages: Path, tag: str) -> None:
    """Write what all queries of a table found as a run. The same ranking gives the same bytes; the first rank writes.

    `ranking` has rows of `passages`, best first, -1 where fewer than k were found, and scores, which are written as
    float32, in the shortest form that reads back equal. `tag` is the system's name. *Shape:* (queries, k) both.
    """
    if not distributed.is_first():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    qids, pids = read_column(queries, "qid"), read_column(passages, "pid")
    # With a time and a file name in its header, the same run would give another file each time.
    with path.open("wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=3) as file:
        for first in range(0, len(qids), QUERIES_AT_A_TIME):
            part = slice(first, first + QUERIES_AT_A_TIME)
            file.write(_lines(qids[part], pids, ranking[0][part], ranking[1][part], tag))


def _lines(qids: pl.Series, pids: pl.Series, passages: Rows, scores: Scores, tag: str) -> bytes:
    score = pl.Series("score", scores[passages >= 0].astype(np.float32))
    run = as_run(passages, qids, pids).with_columns(score, Q0=pl.lit("Q0"), tag=pl.lit(tag))
    frame = run.select("qid", "Q0", "pid", "rank", "score", "tag")
    for name in [*frame["qid"].unique(), *frame["pid"].unique()]:
        if name.split() != [name]:
            rule = "is empty or holds white space, which a TREC run cannot carry"
            raise UserError(f"id {name!r} {rule}; rename it in the source")
    return frame.write_csv(separator=" ", include_header=False, quote_style="never").encode()


def read_run(path: Path) -> pl.DataFrame:
    """Read a run written by this or any other tool, plain or gzip, with any white space between its fields.

    Columns qid, pid, rank, score, as `RUN`; lines in the file's order.
    """
    frame = _read(path, pl.col("rank").cast(pl.Int32, strict=False))
    _refuse_twice(path, frame, "rank")
    return frame


def as_run(passages: Rows, qids: pl.Series, pids: pl.Series) -> pl.DataFrame:
    """Top-k results as a run in memory: columns qid, pid, rank. *Shape:* passages (n, k), best first, -1: none."""
    query, place = np.nonzero(passages >= 0)
    return pl.DataFrame({"qid": qids.gather(query), "pid": pids.gather(passages[query, place]), "rank": place + 1})


def as_matrices(run: pl.DataFrame, n_queries: int) -> tuple[Rows, Scores]:
    """The passages of a run (columns query, passage, rank, score), best first, -1 where a query has fewer; the scores.

    *Shape:* (queries, k) both.
    """
    at = run["query"].to_numpy(), run["rank"].to_numpy() - 1
    shape = n_queries, int(at[1].max(initial=-1)) + 1
    passages, scores = np.full(shape, -1, dtype=np.int64), np.zeros(shape, dtype=np.float32)
    passages[at], scores[at] = run["passage"].to_numpy(), run["score"].to_numpy()
    return passages, scores


def read_scored_run(path: Path) -> pl.DataFrame:
    """Read a run of any tool as trec_eval reads it: passages are ranked by score, whatever the rank field says.

    Scores are compared in single precision. Passages with equal scores stand in descending order of their ids' bytes.
    Columns are as of `read_run`, sorted by rank within a query.
    """
    frame = _read(path, pl.lit(1, pl.Int32).alias("rank"))
    frame = frame.sort(pl.col("score").cast(pl.Float32), "pid", descending=True, maintain_order=True)
    return frame.with_columns(rank=pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over("qid"))


def _read(path: Path, rank: pl.Expr) -> pl.DataFrame:
    """Read a run; `rank` makes the column rank from what the file has there."""
    data = plain = _plain(path)
    if data.startswith((b" ", b"\n")) or any(one in data for one in UNEVEN):  # then line by line
        data = b"\n".join(b" ".join(line.split()) for line in data.split(b"\n") if line.strip())
    fields = pl.read_csv(
        HEADER + b"\n" + data, separator=" ", quote_char=None, infer_schema=False, truncate_ragged_lines=True
    )
    frame = fields.select("qid", "pid", rank, pl.col("score").cast(pl.Float64, strict=False))
    right = pl.all_horizontal(pl.all().is_not_null(), pl.col("rank") >= 1, pl.col("score").is_finite())
    six = fields.select(pl.col("tag").is_not_null() & pl.col("more").is_null()).to_series()
    wrong = (~(six & frame.select(right.fill_null(False)).to_series())).arg_true()
    if len(wrong):
        lines = ((number, line) for number, line in enumerate(plain.split(b"\n"), 1) if line.strip())
        number, line = next(islice(lines, wrong[0], None))
        more = f" ({len(wrong) - 1} more lines are wrong)" if len(wrong) > 1 else ""
        raise UserError(f"{path}, line {number} is {shorten(line.decode())}; {FORM}; write the run again{more}")
    if not plain.isascii():  # then ids may hold a no-break space
        blank = frame.filter(pl.any_horizontal(pl.col("qid", "pid").str.contains(r"\s"))).head(1)
        for qid, pid in blank.select("qid", "pid").iter_rows():
            raise UserError(f"{path}: query {qid!r} and passage {pid!r}: an id has white space; replace it")
    _refuse_twice(path, frame, "pid")
    return frame


def _plain(path: Path) -> bytes:
    """The bytes of a text file in UTF-8, plain or gzip, without byte order marks."""
    with open_binary(path) as file:
        data = file.read()
    try:
        data.decode()
    except UnicodeDecodeError as error:
        number = data[: error.start].count(b"\n") + 1
        raise UserError(f"{path}, line {number}: not UTF-8; convert the file") from error
    return b"\n".join(map(without_marks, data.split(b"\n"))) if BYTE_ORDER_MARK in data else data


def _refuse_twice(path: Path, frame: pl.DataFrame, column: str) -> None:
    pairs = frame.select("qid", column)
    for qid, value in pairs.filter(pairs.is_duplicated()).head(1).iter_rows():
        rule = "a run lists each once; write the run again"
        raise UserError(f"{path}: query {qid!r} has {column} {value!r} twice; {rule}")
