"""Strict reading of text files, plain or gzip: a line at a time, with the number of a wrong line in its error."""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import ijson

from gnn_encoder.core.errors import UserError
from gnn_encoder.data.rows import Place, shorten

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
DAMAGED_GZIP = (EOFError, gzip.BadGzipFile, zlib.error)


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Stream (line number from 1, line without its end).

    Raises:
        UserError: an empty line, bytes that are not UTF-8, or a gzip file that is cut off or damaged.
    """
    number = 0
    with open_binary(path) as file:
        try:
            for number, line in enumerate(file, start=1):
                if number == 1:
                    line = line.removeprefix(BYTE_ORDER_MARK)
                text = _decode(path, number, line.rstrip(b"\r\n"))
                if not text:
                    raise UserError(f"{path}, line {number}: empty; remove the line")
                yield number, text
        except DAMAGED_GZIP as error:
            raise UserError(
                f"{path}: gzip data cut off or damaged after line {number} ({error}); fetch or compress the file again"
            ) from error


def read_json_lines(path: Path) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Stream the objects of a JSON lines file.

    Raises:
        UserError: what `read_lines` raises, or a line that is no JSON object.
    """
    for number, line in read_lines(path):
        place = Place(path, f"line {number}")
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            why = f"{error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
            raise UserError(f"{place}: {shorten(line)} is not JSON ({why}); write one object a line") from error
        if not isinstance(value, dict):
            raise UserError(f"{place}: {shorten(line)} is not a JSON object; write one object a line")
        yield place, value


def read_json_items(path: Path, prefix: str, *, a: str, form: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Stream the objects of an array in a JSON file; memory does not grow with the file.

    Args:
        prefix: where the objects stand, as ijson names it: `item` if the file is the array.
        a: what an object is, for messages: "query".
        form: what the file is, for messages: "a JSON array of queries".

    Raises:
        UserError: the file is no JSON, is cut off or damaged, or has no such objects.
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
            raise UserError(
                f"{path}: gzip data cut off or damaged after item {number} ({error}); fetch or compress the file again"
            ) from error
    if number < 0:
        raise UserError(f"{path}: no items; it must be {form}")


def check_folder(folder: Path, holds: str) -> None:
    """Check that the folder of a source exists.

    Args:
        folder: `data.path`.
        holds: a file that it should hold, for the message.

    Raises:
        UserError: it is not a folder.
    """
    if not folder.is_dir():
        raise UserError(f"data.path: {folder} is not a folder; give the one that holds {holds}")


def find(folder: Path, *names: str) -> Path | None:
    """The first of the files `names` that is in a folder, plain or as `NAME.gz`; None where none is.

    Raises:
        UserError: a file is there in both forms.
    """
    for name in names:
        found = [path for path in (folder / name, folder / f"{name}.gz") if path.is_file()]
        if len(found) > 1:
            raise UserError(f"{found[0]}: {found[1].name} is there as well; keep one of the two")
        if found:
            return found[0]
    return None


def require(folder: Path, *names: str) -> Path:
    """The first of the files `names` that is in a folder, as `find` finds it.

    Raises:
        UserError: none of them is there, or one is there in both forms.
    """
    path = find(folder, *names)
    if path is None:
        others = ", ".join(f"{name}.gz" if name == names[0] else name for name in names)
        raise UserError(f"{folder / names[0]}: no such file, nor {others}; add it, or correct data.path")
    return path


def open_binary(path: Path) -> BinaryIO:
    """Open a plain or gzip file as a stream of its plain bytes."""
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    return path.open("rb")


def _decode(path: Path, number: int, line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}, line {number}, byte {error.start + 1}: 0x{line[error.start]:02x} is not UTF-8 ({error.reason}); "
            "convert the file to UTF-8"
        ) from error
