"""Qrels of any tool, as TREC writes them (`qid 0 pid grade`) or as BEIR does (`qid pid grade`), or of stage prepare.

A line `qid pid` says that the passage is relevant.
"""

import re
from pathlib import Path

import polars as pl

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.records import QRELS, open_table
from gnn_encoder.core.runs import numbered_lines

FORMS = "a line is `qid 0 pid grade` (TREC), `qid pid grade` (BEIR) or `qid pid`, with white space between them"
HEADER = ["query-id", "corpus-id", "score"]  # BEIR's
GRADE = re.compile(r"[+-]?[0-9]{1,9}")  # nine digits at most: an int32 holds them
SCHEMA = pl.Schema({"line": pl.Int64(), "qid": pl.String(), "pid": pl.String(), "grade": pl.Int32()})


def read_qrels(path: Path) -> pl.DataFrame:
    """Read judgements: text, plain or gzip, or a table as stage prepare writes it.

    Returns:
        Columns qid, pid, grade; lines in the file's order.

    Raises:
        UserError: the file is missing or truncated, a line is malformed, or a pair is judged twice.
    """
    if path.suffix == ".parquet":
        return pl.DataFrame(open_table(path, QRELS).read())
    rows: list[tuple[int, str, str, int]] = []
    width = None
    for number, line in numbered_lines(path):
        fields = line.removeprefix("\ufeff").split()
        width = width or (len(fields) if len(fields) in (2, 3, 4) else None)
        if not rows and fields == HEADER:
            continue
        if len(fields) != width:
            raise UserError(f"{path}, line {number}: {len(fields)} fields; {FORMS}, the same in the whole file")
        qid, pid, grade = (*fields, "1") if width == 2 else (fields[0], fields[-2], fields[-1])
        if not GRADE.fullmatch(grade):
            raise UserError(f"{path}, line {number}: grade is {grade!r}; must be a whole number, 0 for not relevant")
        rows.append((number, qid, pid, int(grade)))
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    repeated = table.filter(~pl.struct("qid", "pid").is_first_distinct())
    if len(repeated):
        number, qid, pid, _ = repeated.row(0)
        raise UserError(f"{path}, line {number}: query {qid!r} and passage {pid!r} were judged before; keep one line")
    return table.drop("line")
