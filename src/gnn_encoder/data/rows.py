"""What a source yields: checked rows, each with the place in the source's files where it stands, and their ids."""

import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.core.errors import UserError

GRADE = re.compile(r"[+-]?[0-9]{1,9}(\.0*)?")  # nine digits at most: an int32 holds them

DIGITS = 16  # hexadecimal: 64 bits
NOTHING: Mapping[str, int] = MappingProxyType({})  # `dropped` of a source that leaves nothing out


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
    at: int | None = None  # the character of the passage's text where the answer begins, if the source says it


class DataSource(Protocol):
    """A reader of one source format. Every call of a method reads the files anew, in the same order."""

    splits: tuple[str, ...]  # the splits that the source has
    answered: tuple[str, ...]  # the splits that are judged by answers: they have no judgements
    shared_qids: bool  # whether an id means the same query in every split

    @property
    def dropped(self) -> Mapping[str, int]:
        """What is left out on purpose, such as `questions_without_an_answer`, and how often."""

    def files(self) -> list[Path]:
        """All files that are read, for the fingerprint."""

    def passages(self) -> Iterator[tuple[Place, Passage]]:
        """All passages."""

    def queries(self, split: str) -> Iterator[tuple[Place, Query]]:
        """The queries of a split, perhaps with others: `prepare` leaves out those without a judgement or answers."""

    def judgements(self, split: str) -> Iterator[tuple[Place, Judgement]]:
        """All judgements of a split; none if the split is judged by answers."""


def check_id(place: Place, column: str, value: object) -> str:
    """An id that a TREC run can carry: a string, not empty, without white space.

    Raises:
        UserError: it is something else.
    """
    if value is None:
        raise UserError(f"{place}, {column}: missing; give every row an id of its own")
    text = check_string(place, column, value)
    if not text:
        raise UserError(f"{place}, {column}: empty; give every row an id of its own")
    if text.split() != [text]:
        raise UserError(f"{place}, {column}: {shorten(text)} has white space, a TREC run cannot carry it; replace it")
    return text


def check_text(place: Place, column: str, value: object) -> str:
    """A text with at least one character that is not white space.

    Raises:
        UserError: it is missing, empty or no string.
    """
    if value is None:
        raise UserError(f"{place}, {column}: missing; add it or remove the row")
    text = check_string(place, column, value)
    if not text or text.isspace():
        raise UserError(f"{place}, {column}: {shorten(text)} is empty; give it a text or remove the row")
    return text


def check_string(place: Place, column: str, value: object) -> str:
    """A string that UTF-8 can hold.

    Raises:
        UserError: it is of another type, or holds half of a surrogate pair (JSON can spell one).
    """
    if not isinstance(value, str):
        raise UserError(f"{place}, {column}: {shorten(value)} is not a string; put it in quotes")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        found = f"\\u{ord(value[error.start]):04x}"
        raise UserError(f"{place}, {column}: {found} is half a character (a lone surrogate); remove it") from error
    return value


def check_grade(place: Place, column: str, value: str) -> int:
    """A grade that an int32 holds, also written as 1.0.

    Raises:
        UserError: it is no integer, or has too many digits.
    """
    if not GRADE.fullmatch(value):
        raise UserError(f"{place}, {column}: {shorten(value)} is not an integer; write 1 for relevant, 0 for not")
    return int(value.partition(".")[0])


def shorten(value: object, limit: int = 60) -> str:
    """`value` as an error message shows it: quoted, on one line, at most about `limit` characters."""
    shown = ascii(value) if not isinstance(value, str) or not value.isprintable() else repr(value)
    return shown if len(shown) <= limit else f"{shown[:limit]}..."


# --- ids --------------------------------------------------------------------------------------------------------------


class Ids:
    """Ids in row order, collected batch by batch; they are compared only where two hashes are equal."""

    def __init__(self) -> None:
        self._batches: list[NDArray[np.uint64]] = []
        self._sorted: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)

    def add(self, ids: list[str]) -> None:
        """Append the ids of the next rows."""
        self._batches.append(hash_ids(pl.Series(ids, dtype=pl.String)))

    def check_unique(self, rows: Iterable[tuple[Place, str]], column: str) -> None:
        """Check that no two rows have the same id. Call it after the last `add`, and before `contain`.

        Args:
            rows: place and id of every row once more; they are read only if two hashes are equal.
            column: what the source calls the id.

        Raises:
            UserError: two rows have the same id.
        """
        hashes = np.concatenate([*self._batches, self._sorted])
        self._batches = []
        self._sorted = np.sort(hashes)
        repeated = np.unique(self._sorted[1:][self._sorted[1:] == self._sorted[:-1]])
        if len(repeated):
            suspects = np.flatnonzero(np.isin(hashes, repeated))
            _raise_if_repeated(_pick(rows, suspects), column)

    def contain(self, ids: pl.Series) -> NDArray[np.bool_]:
        """Whether each of `ids` is among the collected ones (wrong for one unknown id in 2**64 / rows)."""
        hashes = hash_ids(ids)
        if not len(self._sorted):
            return np.zeros(len(hashes), dtype=np.bool_)
        nearest = np.searchsorted(self._sorted, hashes).clip(max=len(self._sorted) - 1)
        return np.asarray(self._sorted[nearest] == hashes)


def hash_ids(ids: pl.Series) -> NDArray[np.uint64]:
    """64-bit hash of each string; the same within a process."""
    return ids.hash(seed=0).to_numpy()


def _pick(rows: Iterable[tuple[Place, str]], wanted: NDArray[np.intp]) -> Iterator[tuple[Place, str]]:
    positions = set(wanted.tolist())
    return (row for i, row in enumerate(rows) if i in positions)


def _raise_if_repeated(rows: Iterable[tuple[Place, str]], column: str) -> None:
    first: dict[str, Place] = {}
    for place, key in rows:
        if key in first:
            raise UserError(f"{place}, {column}: {key!r} is also the id in {first[key].row}; give each row its own")
        first[key] = place


def stable_hash(text: str) -> str:
    """64 bits of BLAKE2b as 16 hexadecimal digits."""
    return blake2b(text.encode(), digest_size=DIGITS // 2).hexdigest()


def split_of(key: str, *, dev: float, test: float) -> str:
    """The split that a hash falls into: a query keeps it while others come and go, and whatever the seed is.

    Args:
        key: as `stable_hash` gives it.
        dev: share of the queries outside test that is dev, in 0..1.
        test: share of all queries that is test, in 0..1.
    """
    place = int(key, 16) / 16**DIGITS
    if place < test:
        return "test"
    return "dev" if place < test + (1 - test) * dev else "train"
