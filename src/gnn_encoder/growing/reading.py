"""What users give: passages to add, ids to delete, queries to log. A wrong row is told with its place."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pyarrow as pa
from tqdm import tqdm

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.storage.tables import batched, write_table
from gnn_encoder.data.beir import read_corpus
from gnn_encoder.data.ids import Ids
from gnn_encoder.data.lines import read_lines
from gnn_encoder.data.query_log import normal_form
from gnn_encoder.data.rows import Passage, Place, check_id, shorten
from gnn_encoder.growing.segment import GROWN

COLUMNS = ("query", "pid", "count")


class Log(NamedTuple):
    """Logged queries, each once, and the passages that they are labelled with.

    `pairs` has the columns `query`, a row of `queries`, `pid`, and `line`, where the pair stands in the file.
    """

    queries: pl.DataFrame  # columns text, same: what equal queries have in common
    pairs: pl.DataFrame


def write_passages(path: Path, target: Path) -> None:
    """Check a file of passages, as in a BEIR corpus, and write it as a table like `GROWN`; rows are streamed.

    Raises:
        UserError: the file is missing or has no passage, a row is wrong, or two rows have the same id.
    """
    check_file(path)
    ids = Ids()

    def batches() -> Iterator[pa.Table]:
        rows = tqdm(read_corpus(path), desc=f"read {path.name}", unit=" passages", disable=None)
        for batch in batched(passage for _, passage in rows):
            ids.add([passage.pid for passage in batch])
            yield passages_table(batch)

    write_table(target, GROWN, batches())
    ids.check_unique(((place, passage.pid) for place, passage in read_corpus(path)), "_id")


def passages_table(passages: Iterable[Passage]) -> pa.Table:
    """Added passages as `GROWN`."""
    pids, titles, texts = ([*column] for column in zip(*passages, strict=True))
    return pa.table([pids, titles, texts, pa.repeat(True, len(pids))], schema=GROWN)


def read_pids(pids: Iterable[str], path: Path | None) -> pl.DataFrame:
    """Ids from the command line and from a file with one a line, each once.

    Returns:
        Columns pid and place, where it was given.

    Raises:
        UserError: there is none, the file is missing, or an id could be none.
    """
    found = [(pid, f"argument {number}") for number, pid in enumerate(pids, 1)]
    if path is not None:
        check_file(path)
        for number, line in read_lines(path):
            place = Place(path, f"line {number}")
            found.append((check_id(place, "pid", line), str(place)))
    if not found:
        raise UserError("no passage is named: give ids, or a file with one a line as --file")
    return pl.DataFrame(found, {"pid": pl.String(), "place": pl.String()}, orient="row").unique(
        "pid", keep="first", maintain_order=True
    )


def read_log(path: Path) -> Log:
    """Queries, one a line: `query`, `query<TAB>pid` or `query<TAB>pid<TAB>count`, perhaps below a header of such words.

    Queries that differ only in case, white space and punctuation are one, written as it came first. A line whose count
    is 0 labels nothing.

    Raises:
        UserError: the file is missing or has no query, or a row is wrong.
    """
    check_file(path)
    rows = [
        _logged(Place(path, f"line {number}"), line)
        for number, line in read_lines(path)
        if not _is_header(number, line)
    ]
    if not rows:
        raise UserError(
            f"{path}: no queries; write one a line, with a tab and a passage's id behind it if you know one"
        )
    return log_of(pl.DataFrame(rows, {"text": pl.String(), "pid": pl.String(), "line": pl.String()}, orient="row"))


def log_of(rows: pl.DataFrame) -> Log:
    """Join equal queries. `rows`: columns text, pid (null where there is none), line."""
    rows = rows.with_columns(same=normal_form(pl.col("text")))
    queries = rows.unique("same", keep="first", maintain_order=True).select("text", "same")
    pairs = rows.filter(pl.col("pid").is_not_null()).unique(["same", "pid"], keep="first", maintain_order=True)
    numbered = queries.select("same").with_row_index("query")
    pairs = pairs.join(numbered, on="same", maintain_order="left")
    return Log(queries, pairs.select(pl.col("query").cast(pl.Int32), "pid", "line"))


def known_queries(known: pl.LazyFrame, given: Log) -> pl.Series:
    """Which of the given queries are among known ones. `known`: column text."""
    same = known.select(same=normal_form(pl.col("text")))
    found = same.filter(pl.col("same").is_in(given.queries["same"].implode())).collect(engine="streaming")
    return given.queries["same"].is_in(found["same"].implode())


def check_file(path: Path) -> None:
    """Check that a file exists and is not empty.

    Raises:
        UserError: it is not there, or has nothing in it.
    """
    if path.is_dir():
        raise UserError(f"{path}: is a folder; name a file in it")
    if not path.is_file():
        raise UserError(f"{path}: no such file; correct the path")
    if path.stat().st_size == 0:
        raise UserError(f"{path}: is empty; write one row a line")


def _is_header(number: int, line: str) -> bool:
    columns = tuple(line.lower().split("\t"))
    return number == 1 and columns == COLUMNS[: len(columns)]


def _logged(place: Place, line: str) -> tuple[str, str | None, str]:
    columns = line.split("\t")
    if len(columns) > len(COLUMNS):
        raise UserError(f"{place}: {len(columns)} columns; write at most {', '.join(COLUMNS)} with a tab between them")
    text = " ".join(columns[0].split())
    if text.startswith(("{", "[")):  # a query that is taken in cannot be taken out
        raise UserError(f"{place}, query: {shorten(text)} looks like JSON; write `query`, or `query<TAB>pid`, a line")
    if not any(map(str.isalnum, text)):
        raise UserError(f"{place}, query: {shorten(columns[0])} has no word; give it some or remove the line")
    pid = check_id(place, "pid", columns[1]) if len(columns) > 1 else None
    if len(columns) == len(COLUMNS):
        count = columns[2]
        if not (count.isascii() and count.isdigit()):
            raise UserError(f"{place}, count: {shorten(count)} is not a whole number from 0 on; correct it")
        pid = pid if int(count) else None
    return text, pid, str(place)
