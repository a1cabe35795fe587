"""Strict reading of files, a row at a time, with the place of a wrong row in its error; text is plain or gzip."""

import csv
import gzip
import json
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import ijson
import polars as pl

from gnn_encoder.base.errors import UserError, check_file, shorten
from gnn_encoder.base.tables import ROW_GROUP, open_parquet, undamaged
from gnn_encoder.base.words import BYTE_ORDER_MARK, GZIP, without_marks
from gnn_encoder.data.rows import Judgement, Place, Row, check_grade, checked

UTF_16 = b"\xff\xfe", b"\xfe\xff"  # how a file begins
DAMAGED_GZIP = (EOFError, gzip.BadGzipFile, zlib.error)
QRELS_HEADER = ["query-id", "corpus-id", "score"]  # BEIR's
QRELS_FORMS = "a line is `qid 0 pid grade` (TREC), `qid pid grade` (BEIR) or `qid pid`, with white space between them"


def as_it_is(_: Place, row: Row) -> Row:
    """The row itself."""
    return row


def read_lines(path: Path, check: Callable[[Place, str], Row]) -> Iterator[tuple[Place, Row]]:
    """Stream what `check` makes of the lines, without their ends, as `checked` does; blank lines are passed over."""
    return checked(_raw_lines(path), lambda place, line: check(place, _decode(place, line)))


def _raw_lines(path: Path) -> Iterator[tuple[Place, bytes]]:
    number = 0
    with open_binary(path) as file:
        try:
            for number, line in enumerate(file, start=1):
                if number == 1 and line.startswith(UTF_16):
                    raise UserError(f"{path}: UTF-16, as its first two bytes say; convert the file to UTF-8")
                line = without_marks(line).rstrip(b"\r\n")
                if line.strip():
                    yield Place(path, f"line {number}"), line
        except DAMAGED_GZIP as error:
            raise _damaged(path, f"line {number}", error) from error


def read_json_lines(path: Path, check: Callable[[Place, dict[str, Any]], Row]) -> Iterator[tuple[Place, Row]]:
    """Stream what `check` makes of the objects of a JSON lines file, as `checked` does."""

    def parsed(place: Place, line: str) -> Row:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            why = f"{error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
            raise UserError(f"{place}: {shorten(line)} is not JSON ({why}); write one object a line") from error
        if not isinstance(value, dict):
            raise UserError(f"{place}: {shorten(line)} is not a JSON object; write one object a line")
        return check(place, value)

    return read_lines(path, parsed)


def read_columns(
    path: Path,
    names: Sequence[str] | None,
    check: Callable[[Place, list[str]], Row],
    *,
    quoted: bool = False,
) -> Iterator[tuple[Place, Row]]:
    """Stream what `check` makes of the rows of a table with a tab between its columns, as `checked` does.

    Args:
        names: of the columns; None: the first row has as many as all others.
        quoted: a column may stand in CSV's quotes; else quotes mean nothing.
    """
    csv.field_size_limit(sys.maxsize)  # csv's own limit is 128 KiB, and a text may have any length
    known = names

    def parsed(place: Place, line: str) -> Row:
        nonlocal known
        try:
            columns = next(csv.reader([line], delimiter="\t")) if quoted else line.split("\t")
        except csv.Error as error:
            raise UserError(f"{place}: {shorten(line)} is no row of a table ({error}); mend or remove it") from error
        known = known or columns
        if len(columns) != len(known):
            quotes = ', quotes that open a column closed and those inside doubled ("")' if quoted else ""
            cure = f"write {', '.join(known)} with a tab between them{quotes}"
            raise UserError(f"{place}: {len(columns)} columns, not {len(known)}; {cure}")
        return check(place, columns)

    return read_lines(path, parsed)


def read_judged(path: Path) -> Iterator[tuple[Place, Judgement]]:
    """Stream qrels of any of `QRELS_FORMS`; a pair without a grade is relevant, and BEIR's header may be there."""
    width = 0

    def parsed(place: Place, line: str) -> Judgement | None:
        nonlocal width
        fields = line.split()
        if not width and fields in (QRELS_HEADER, QRELS_HEADER[:2]):
            return None
        first = not width
        if first and len(fields) in (2, 3, 4):  # else the others would be wrong too
            width = len(fields)
        if not width or len(fields) != width:
            raise UserError(f"{place}: {len(fields)} fields; {QRELS_FORMS}, the same in the whole file")
        qid, pid, grade = (*fields, "1") if width == 2 else (fields[0], *fields[-2:])
        if first and any(map(str.isalpha, grade)):
            cure = f"write `{' '.join(QRELS_HEADER)}`, or remove the line"
            raise UserError(f"{place}: {shorten(line)} looks like a header; {cure}")
        return Judgement(qid, pid, check_grade(place, "grade", grade))

    return ((place, found) for place, found in read_lines(path, parsed) if found)


def read_parquet(
    path: Path, needed: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Stream the rows of a Parquet table, by the names of some columns."""
    table = open_parquet(path)
    names, number = table.schema_arrow.names, 0
    check_columns(Place(path, "columns"), names, needed, optional)
    wanted = [name for name in (*needed, *optional) if name in names]
    with undamaged(path):
        for batch in table.iter_batches(batch_size=ROW_GROUP, columns=wanted):
            for row in pl.DataFrame(batch).iter_rows(named=True):
                yield Place(path, f"row {number}"), row
                number += 1


def check_columns(
    place: Place, names: Sequence[str], needed: Sequence[str], optional: Sequence[str] = (), *, form: str = ""
) -> None:
    """Refuse a table in which one of the needed columns is missing, or one of those that are read stands twice.

    Args:
        form: how the columns are named, for the message.
    """
    for name in (*needed, *optional):
        if names.count(name) > 1 or (name in needed and name not in names):
            rule = f"there must be {', '.join(needed)} and may be {', '.join(optional) or 'others'}, each once"
            raise UserError(f"{place}: {names.count(name)} columns {name} in {shorten(', '.join(names))}: {rule}{form}")


def read_json_items(path: Path, prefix: str, *, a: str, form: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Stream the objects of an array in a JSON file; memory does not grow with the file.

    Args:
        prefix: where the objects stand, as ijson names it: `item` if the file is the array.
        a: what an object is, for messages: "query".
        form: what the file is, for messages: "a JSON array of queries".
    """
    number = -1
    with open_binary(path) as file:
        try:
            if file.read(len(BYTE_ORDER_MARK)) != BYTE_ORDER_MARK:
                file.seek(0)
            for number, item in enumerate(ijson.items(file, prefix, use_float=True)):
                place = Place(path, f"item {number}")
                if not isinstance(item, dict):
                    raise UserError(f"{place}: {shorten(item)} is no JSON object; write one a {a}")
                yield place, item
        except (ijson.JSONError, UnicodeDecodeError) as error:
            why, where = " ".join(str(error).split()), f", after item {number}" if number >= 0 else ""
            raise UserError(f"{path}{where}: not JSON ({why}); it must be {form} in UTF-8, whole") from error
        except DAMAGED_GZIP as error:
            raise _damaged(path, f"item {number}", error) from error
    if number < 0:
        raise UserError(f"{path}: no items; it must be {form}")


def check_folder(folder: Path, holds: str) -> None:
    """Refuse a `data.path` that is no folder; `holds` names a file that it should hold, for the message."""
    if not folder.is_dir():
        raise UserError(f"data.path: {folder} is not a folder; give the one that holds {holds}")


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
    """The first of the files `names` that is in a folder, as `find` finds it."""
    path = find(folder, *names)
    if path is None:
        others = ", ".join(f"{name}.gz" if name == names[0] else name for name in names)
        raise UserError(f"{folder / names[0]}: no such file, nor {others}; add it, or correct data.path")
    return path


@contextmanager
def open_binary(path: Path) -> Iterator[BinaryIO]:
    """Open a plain or gzip file, whatever its name is, as a stream of its plain bytes; once, since it may be a pipe."""
    check_file(path)
    with path.open("rb") as file:
        packed = path.suffix == ".gz" or file.peek(2).startswith(GZIP)
        yield cast(BinaryIO, gzip.GzipFile(fileobj=file)) if packed else file


def _decode(place: Place, line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"byte {error.start + 1}: 0x{line[error.start]:02x} is not UTF-8 ({error.reason})"
        raise UserError(f"{place}, {what}; convert the file to UTF-8") from error


def _damaged(path: Path, last: str, error: Exception) -> UserError:
    return UserError(f"{path}: gzip data cut off or damaged after {last} ({error}); fetch or compress the file again")
