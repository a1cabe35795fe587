"""Strict reading of a source's files, a row at a time: the first fault is an error with file, row, value and cure.

A source yields `Passage`, `Query` and `Judgement`, each with its `Place`. Text files are plain or gzip, in UTF-8.
"""

import csv
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from gnn_encoder.base.errors import UserError, shorten
from gnn_encoder.base.files import open_binary, without_marks
from gnn_encoder.base.words import is_empty

WHOLE = re.compile(r"[+-]?[0-9]{1,18}(\.0*)?")  # an int64 holds them
QUOTES = ', quotes that open a column closed and those inside doubled ("")'
QRELS_HEADER = ["query-id", "corpus-id", "score"]  # BEIR's
HEADERS = ("qid", "query", "query_id", "query-id", "queryid", "topic")  # first words of a header
QRELS_FORMS = "`qid 0 pid grade` (TREC), `qid pid grade` (BEIR) or `qid pid`, the same in the whole file"
Place = str  # where a row comes from: a file, and the name of the row in it (`line 7`, `entry 20798`)
Named = tuple[Place, dict[str, Any]]  # a row of a table by its columns' names


class Passage(NamedTuple):
    """A row of the passages table."""

    pid: str
    title: str
    text: str


class Query(NamedTuple):
    """A row of a queries table."""

    qid: str
    text: str
    answers: tuple[str, ...] = ()  # all queries of a split that is judged by answers have some; other queries have none


class Judgement(NamedTuple):
    """A row of a qrels table."""

    qid: str
    pid: str
    grade: int
    logged: int | None = None  # how often it was logged, if the source counts


@dataclass(frozen=True, kw_only=True)
class DataSource:
    """The rows of one data set. Every call reads the files anew, in the same order."""

    files: list[Path]  # all that are read, for the fingerprint
    passages: Callable[[], Iterator[tuple[Place, Passage]]]
    # By split, perhaps with others: those without a judgement or answers are left out.
    queries: Mapping[str, Callable[[], Iterator[tuple[Place, Query]]]]
    judgements: Mapping[str, Callable[[], Iterator[tuple[Place, Judgement]]]]  # a split with answers has none
    dropped: Callable[[], dict[str, int]] = dict  # what is left out on purpose, and how often
    lenient: bool = False  # whether judgements of unknown ids, and further ones of a pair, are left out, not refused


# --- values -----------------------------------------------------------------------------------------------------------


def check_string(place: Place, column: str, value: object) -> str:
    """A string, perhaps empty, that UTF-8 can hold."""
    if value is None:
        raise UserError(f"{place}, {column}: missing; add it or remove the row")
    if not isinstance(value, str):
        raise UserError(f"{place}, {column}: {shorten(value)} is not a string; put it in quotes")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        half = f"{value[error.start]!a} is half a character (a lone surrogate)"
        raise UserError(f"{place}, {column}: {half}; remove it") from error
    return value


def check_id(place: Place, column: str, value: object) -> str:
    """An id that a TREC run can carry: a string, not empty, without white space."""
    text = check_string(place, column, value)
    if text.split() != [text]:
        what = "has white space, a TREC run cannot carry it; replace it" if text else "is empty; give it an id"
        raise UserError(f"{place}, {column}: {shorten(text)} {what}")
    return text


def check_text(place: Place, column: str, value: object) -> str:
    """A text with at least one character that can be seen."""
    if is_empty(text := check_string(place, column, value)):
        raise UserError(f"{place}, {column}: {shorten(text)} is empty; give it a text or remove the row")
    return text


def whole(value: object) -> int | None:
    """A whole number, also one that is written as 1.0; None: it is none."""
    text = str(value)
    return int(text.partition(".")[0]) if WHOLE.fullmatch(text) else None


def place_of(rows: Callable[[], Iterator[tuple[Place, Any]]], number: int) -> Place:
    """Where a row stands, counted from 0: the rows are read again for it, which those of a pipe cannot be."""
    return next(islice((place for place, _ in rows()), number, None), "a row")


def refuse_repeated(rows: Callable[[], Iterator[tuple[Place, Any]]], ids: pl.Series, column: str) -> None:
    """Refuse an id that stands twice; `ids` are the first fields of the rows."""
    for again in (~ids.is_first_distinct()).arg_true()[:1]:
        first, place = (place_of(rows, at) for at in ((ids == ids[again]).arg_true()[0], again))
        also = f"{ids[again]!r} is also the id in {first.rpartition(', ')[2]}"
        raise UserError(f"{place}, {column}: {also}; give each row its own")


# --- rows of a file ---------------------------------------------------------------------------------------------------


def read_lines(path: Path) -> Iterator[tuple[Place, str]]:
    """Stream the lines of a text file without their ends; blank ones are passed over."""
    with open_binary(path) as file:
        for number, line in enumerate(file, start=1):
            if line := without_marks(line).rstrip(b"\r\n"):
                place = f"{path}, line {number}"
                try:
                    text = line.decode("utf-8")
                except UnicodeDecodeError as error:
                    what = f"byte {error.start + 1}: 0x{line[error.start]:02x} is not UTF-8 ({error.reason})"
                    raise UserError(f"{place}, {what}; convert the file to UTF-8") from error
                if text.strip():
                    yield place, text


def read_json_lines(path: Path) -> Iterator[Named]:
    """Stream the objects of a JSON lines file."""
    for place, line in read_lines(path):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            why = f"{error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
            raise UserError(f"{place}: {shorten(line)} is not JSON ({why}); write one object a line") from error
        if not isinstance(value, dict):
            raise UserError(f"{place}: {shorten(line)} is not a JSON object; write one object a line")
        yield place, value


def read_columns(
    path: Path, needed: Sequence[str], optional: Sequence[str] | None = None, *, quoted: bool = False
) -> Iterator[Named]:
    """Stream the rows of a table with a tab between its columns.

    With `optional` the first row has the columns' names, otherwise the columns are the `needed` ones. If `quoted`, a
    column may stand in CSV's quotes; else quotes mean nothing.
    """
    csv.field_size_limit(sys.maxsize)  # csv's own limit is 128 KiB, and a text may have any length
    names = needed if optional is None else None
    for place, line in read_lines(path):
        try:
            columns = next(csv.reader([line], delimiter="\t")) if quoted else line.split("\t")
        except csv.Error as error:
            raise UserError(f"{place}: {shorten(line)} is no row of a table ({error}); mend or remove it") from error
        if names is None:
            _check_header(place, columns, needed, optional or ())
            names = columns
            continue
        if len(columns) != len(names):
            cure = f"write {', '.join(names)} with a tab between them{QUOTES if quoted else ''}"
            raise UserError(f"{place}: {len(columns)} columns, not {len(names)}; {cure}")
        yield place, dict(zip(names, columns, strict=True))


def read_named(path: Path, needed: Sequence[str], optional: Sequence[str] | None = None) -> Iterator[Named]:
    """Stream the rows of a JSON lines file, if its name ends so, or of a table."""
    is_json = path.name.removesuffix(".gz").endswith(".jsonl")
    return read_json_lines(path) if is_json else read_columns(path, needed, optional)


def _check_header(place: Place, names: Sequence[str], needed: Sequence[str], optional: Sequence[str]) -> None:
    for name in (*needed, *optional):
        if names.count(name) > 1 or (name in needed and name not in names):
            rule = f"there must be {', '.join(needed)} and may be {', '.join(optional)}, each once"
            raise UserError(f"{place}: {names.count(name)} columns {name} in {shorten(', '.join(names))}: {rule}")


def read_judged(path: Path) -> Iterator[tuple[Place, Judgement]]:
    """Stream qrels of any of `QRELS_FORMS`; a pair without a grade is relevant, and BEIR's header may be there."""
    width = 0
    for place, line in read_lines(path):
        fields = [field.strip() for field in line.strip().split("\t")] if "\t" in line else line.split()
        if not width and fields in (QRELS_HEADER, QRELS_HEADER[:2]):
            continue
        first, width = not width, width or len(fields)
        if len(fields) != width or width not in (2, 3, 4):
            raise UserError(f"{place}: {len(fields)} fields between tabs or blanks; a line is {QRELS_FORMS}")
        qid, pid, written = (*fields, "1") if width == 2 else (fields[0], *fields[-2:])
        if first and (any(map(str.isalpha, written)) or (width == 2 and qid.lower() in HEADERS)):
            header = " ".join(QRELS_HEADER)
            raise UserError(f"{place}: {shorten(line)} looks like a header; write `{header}`, or remove it")
        if (grade := whole(written)) is None or abs(grade) >= 10**9:  # an int32 holds it
            raise UserError(f"{place}, grade: {shorten(written)} is not an integer; write 1 for relevant, 0 for not")
        yield place, Judgement(check_id(place, "query", qid), check_id(place, "passage", pid), grade)


# --- files of a folder ------------------------------------------------------------------------------------------------


def find(folder: Path, *names: str) -> Path | None:
    """The first of the files `names` that is in a folder, plain or as `NAME.gz`; None where none is."""
    for name in names:
        found = [path for path in (folder / name, folder / f"{name}.gz") if path.is_file()]
        if len(found) > 1:
            raise UserError(f"{found[0]}: {found[1].name} is there as well; keep one of the two")
        if found:
            return found[0]
    return None


def require(folder: Path, *names: str) -> Path:
    """The first of the files `names` that is in the folder `data.path`, as `find` finds it."""
    if not folder.is_dir():
        raise UserError(f"data.path: {folder} is not a folder; give the one that holds {names[0]}")
    if path := find(folder, *names):
        return path
    others = ", ".join([f"{names[0]}.gz", *names[1:]])
    raise UserError(f"{folder / names[0]}: no such file, nor {others}; add it, or correct data.path")
