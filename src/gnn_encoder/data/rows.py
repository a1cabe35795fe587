"""What a source yields: checked rows, each with the place in the source's files where it stands, and their ids."""

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from gnn_encoder.base.errors import UserError, shorten
from gnn_encoder.base.words import is_empty

WHOLE = re.compile(r"[+-]?[0-9]{1,18}(\.0*)?")  # an int64 holds them
DIGITS = 16  # hexadecimal: 64 bits
SHOWN, MANY = 5, 1000  # wrong rows of a file that are told, and after which it is not read on
Given = TypeVar("Given")
Row = TypeVar("Row")
Record = TypeVar("Record", bound=tuple[Any, ...])


class Place(NamedTuple):
    """Where a row comes from: a file, and the name of the row in it (`line 7`, `entry 20798`)."""

    file: Path
    row: str

    def __str__(self) -> str:
        return f"{self.file}, {self.row}"


class Passage(NamedTuple):
    """A row of the passages table."""

    pid: str
    title: str
    text: str

    def with_text(self) -> "Passage | None":
        """The passage; a title alone is its text; None: nothing of either can be seen."""
        if not is_empty(self.text):
            return self
        return None if is_empty(self.title) else Passage(self.pid, "", self.title)


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


Passages = Callable[[], Iterator[tuple[Place, Passage]]]
Queries = Callable[[], Iterator[tuple[Place, Query]]]
Judgements = Callable[[], Iterator[tuple[Place, Judgement]]]


@dataclass(frozen=True, kw_only=True)
class Source:
    """The rows of one data set. Every call reads the files anew, in the same order.

    A file that is missing or damaged and a row that breaks a rule are a UserError, which names the file and the row.
    """

    files: list[Path]  # all that are read, for the fingerprint
    passages: Passages
    queries: Mapping[str, Queries]  # by split, perhaps with others: those without a judgement or answers are left out
    judgements: Mapping[str, Judgements]  # by split; a split that is judged by answers has none
    dropped: Callable[[], dict[str, int]] = dict  # what is left out or replaced on purpose, and how often
    foreign: bool = False  # whether the user cannot mend it: what is wrong with its judgements is left out


def checked(rows: Iterable[tuple[Place, Given]], check: Callable[[Place, Given], Row]) -> Iterator[tuple[Place, Row]]:
    """Stream what `check` makes of rows. Its errors are one, after the last row: a user mends them all at once.

    The first is told whole, of the next ones where and what they are. After `MANY` wrong rows a file is not read on.
    """
    faults, told = 0, list[str]()
    for place, row in rows:
        try:
            found = check(place, row)
        except UserError as error:
            faults += 1
            # Of the first one all is told, of the next ones what is wrong in which row.
            told += [str(error) if not told else str(error).removeprefix(f"{place.file}, ").partition(";")[0]]
            if faults == MANY:
                break
        else:
            yield place, found
    if faults:
        shown = "; ".join(told[1:SHOWN]) + ("; ..." if faults > SHOWN else "")
        number = f"{faults - 1} more{' or above' if faults == MANY else ''}"
        raise UserError(told[0] + (f" ({number}: {shown})" if faults > 1 else ""))


def check_id(place: Place, column: str, value: object) -> str:
    """An id that a TREC run can carry: a string, not empty, without white space."""
    if value is None or value == "":
        what = "missing" if value is None else "empty"
        raise UserError(f"{place}, {column}: {what}; give every row an id of its own")
    text = check_string(place, column, value)
    if text.split() != [text]:
        raise UserError(f"{place}, {column}: {shorten(text)} has white space, a TREC run cannot carry it; replace it")
    return text


def check_text(place: Place, column: str, value: object) -> str:
    """A text with at least one character that can be seen."""
    text = check_given(place, column, value)
    if is_empty(text):
        raise UserError(f"{place}, {column}: {shorten(text)} is empty; give it a text or remove the row")
    return text


def check_given(place: Place, column: str, value: object) -> str:
    """A text that may be empty, but is there."""
    if value is None:
        raise UserError(f"{place}, {column}: missing; add it or remove the row")
    return check_string(place, column, value)


def check_string(place: Place, column: str, value: object) -> str:
    """A string that UTF-8 can hold."""
    if not isinstance(value, str):
        raise UserError(f"{place}, {column}: {shorten(value)} is not a string; put it in quotes")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        found = f"\\u{ord(value[error.start]):04x}"
        raise UserError(f"{place}, {column}: {found} is half a character (a lone surrogate); remove it") from error
    return value


def check_grade(place: Place, column: str, value: str) -> int:
    """A grade that an int32 holds, also written as 1.0."""
    if (found := whole(value)) is None or abs(found) >= 10**9:
        raise UserError(f"{place}, {column}: {shorten(value)} is not an integer; write 1 for relevant, 0 for not")
    return found


def whole(value: object) -> int | None:
    """A whole number, also one that is written as 1.0; None: it is none."""
    text = str(value)
    return int(text.partition(".")[0]) if WHOLE.fullmatch(text) else None


def check_objects(place: Place, column: str, value: object) -> list[dict[str, Any]]:
    """A list of JSON objects, perhaps empty."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise UserError(f"{place}, {column}: {shorten(value)} is no list of objects; give one, perhaps empty")
    return value


def unique(rows: Callable[[], Iterator[tuple[Place, Record]]], column: str) -> Iterator[tuple[Place, Record]]:
    """Stream rows, whose first field is their id. An error after the last tells ids that repeat, and other faults.

    Where ids repeat, the rows are read once more for their places. Memory: 8 bytes a row.
    """
    hashes, faults = array("q"), list[str]()
    try:
        for place, row in rows():
            hashes.append(hash(row[0]))
            yield place, row
    except UserError as error:
        faults.append(str(error))
    values, counts = np.unique(np.array(hashes), return_counts=True)
    repeated, first = set(values[counts > 1].tolist()), dict[str, str]()

    def check(place: Place, row: Record) -> None:
        if row[0] in first:
            rule = f"{row[0]!r} is also the id in {first[row[0]]}"
            raise UserError(f"{place}, {column}: {rule}; give each row its own")
        if hash(row[0]) in repeated:
            first[row[0]] = place.row

    def again() -> Iterator[tuple[Place, Record]]:
        with suppress(UserError):  # the faults are known
            yield from rows()

    try:
        _exhaust(checked(again() if repeated else (), check))
    except UserError as error:
        faults.append(str(error))
    if faults:
        raise UserError("; also ".join(faults))


def refuse(rows: Callable[[], Iterator[tuple[Place, Any]]], wrong: Mapping[int, str]) -> None:
    """Tell the faults of some rows, counted from 0, as `checked` does; a fault is a format with the row as field 0."""

    def check(place: Place, numbered: tuple[int, Any]) -> None:
        number, row = numbered
        if number in wrong:
            raise UserError(f"{place}: {wrong[number].format(row)}")

    _exhaust(checked(((place, (number, row)) for number, (place, row) in enumerate(rows())), check))


def _exhaust(rows: Iterable[Any]) -> None:
    for _ in rows:
        pass


def stable_hash(text: str) -> str:
    """64 bits of BLAKE2b as 16 hexadecimal digits."""
    return blake2b(text.encode(), digest_size=DIGITS // 2).hexdigest()


def split_of(key: str, *, dev: float, test: float) -> str:
    """The split that a `stable_hash` falls into: a query keeps it while others come and go, and whatever the seed is.

    `test` is the share of all queries that is test, `dev` the share of the others that is dev.
    """
    place = int(key, 16) / 16**DIGITS
    if place < test:
        return "test"
    return "dev" if place < test + (1 - test) * dev else "train"
