"""Source `log`: a corpus and a query log, one line for each time that a passage was chosen for a query.

    corpus.jsonl                           as in BEIR's format
    log.tsv, log.jsonl or log.parquet      columns query, pid and, if there, count and time; others are passed over

The text files are plain or .gz. Columns go by the names in the header (JSON: the keys). A line without a count counts
as 1. A time is ISO 8601 (UTC, if it names no zone) or a number, such as Unix seconds.

Queries that differ only in case, white space and punctuation are one query, written as it was most often; its id is a
hash of what they have in common. The counts of a query and a passage are added up.
"""

import logging
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.progress import tqdm
from gnn_encoder.core.records import SPLITS
from gnn_encoder.core.storage.tables import ROW_GROUP, batched
from gnn_encoder.data.beir import read_corpus
from gnn_encoder.data.lines import check_folder, find, read_json_lines, read_lines, require
from gnn_encoder.data.rows import (
    Ids,
    Judgement,
    Passage,
    Place,
    Query,
    check_id,
    check_string,
    shorten,
    split_of,
    stable_hash,
)

log = logging.getLogger(__name__)

LOGS = ("log.tsv", "log.jsonl", "log.parquet")
NEEDED, OPTIONAL = ("query", "pid"), ("count", "time")
MANY = 0.1  # share of a log's rows whose loss is more than chance
LARGEST = 10**12  # so that millions of counts add up in 64 bits
WAITING = 2**20  # rows that are collected before equal ones are added up
# Signs that tell two queries apart stay: c# is not c, and 50% is not 50.
PUNCTUATION = r"[\p{P}--[#%&@]]+"
# Lines that have a query and a passage in common: their text and id, counts added up, how many, the first one's time.
Row = tuple[str, str, int, int, float | None]
LOGGED = pl.Schema(
    {"text": pl.String(), "pid": pl.String(), "count": pl.Int64(), "rows": pl.Int64(), "time": pl.Float64()}
)


class Labels(NamedTuple):
    """What a log says."""

    queries: pl.DataFrame  # columns qid, text, split
    pairs: pl.DataFrame  # columns qid, pid, count
    dropped: dict[str, int]


class SearchLog:
    """Reader of a corpus and its query log.

    Args:
        folder: `data.path`.
        min_count: `data.min_count`.
        split: `data.split`: hash, or time (the queries that came up last are test, those before them dev).
        dev: share of the queries outside test that is dev.
        test: share of all queries that is test.

    Memory: the distinct pairs of a query and a passage; the log itself is read in parts.

    Raises:
        UserError: the folder, or a file that it must have, is missing, or there are two logs.
    """

    answered: tuple[str, ...] = ()
    shared_qids = True
    splits: tuple[str, ...] = SPLITS

    def __init__(
        self, folder: Path, *, min_count: int, split: Literal["hash", "time"], dev: float, test: float
    ) -> None:
        check_folder(folder, "corpus.jsonl")
        self.corpus = require(folder, "corpus.jsonl")
        self.log = require(folder, *LOGS)
        others = [path for name in LOGS if (path := find(folder, name)) and path != self.log]
        if others:
            raise UserError(f"{self.log}: {others[0].name} is there as well; keep one log")
        self._min_count, self._split, self._dev, self._test = min_count, split, dev, test

    def files(self) -> list[Path]:
        """All files that are read, for the fingerprint."""
        return [self.corpus, self.log]

    @property
    def dropped(self) -> Mapping[str, int]:
        """How many rows of the log and pairs of a query and a passage are left out, and why."""
        return self._labels.dropped

    def passages(self) -> Iterator[tuple[Place, Passage]]:
        """All passages; a title may be missing, null or empty."""
        return read_corpus(self.corpus)

    def queries(self, split: str) -> Iterator[tuple[Place, Query]]:
        """The queries of a split, each once, sorted by id."""
        for qid, text in self._labels.queries.filter(split=split).select("qid", "text").iter_rows():
            yield Place(self.log, f"query {shorten(text)}"), Query(qid, text)

    def judgements(self, split: str) -> Iterator[tuple[Place, Judgement]]:
        """The passages that were chosen for the queries of a split, with grade 1 and their counts."""
        chosen = self._labels.queries.filter(split=split)
        pairs = self._labels.pairs.join(chosen, on="qid", maintain_order="left")
        for qid, pid, count, text in pairs.select("qid", "pid", "count", "text").iter_rows():
            yield Place(self.log, f"query {shorten(text)}"), Judgement(qid, pid, 1, count)

    @cached_property
    def _labels(self) -> Labels:
        found, left_out = self._usable(self._read())
        texts, pairs = _texts(found), _added(found, "same", "pid")
        rare, pairs = _parted(pairs, pl.col("count") < self._min_count)
        if pairs.is_empty():
            cure = "log more, or lower data.min_count"
            raise UserError(f"{self.log}: no query and passage were logged {self._min_count} times or more; {cure}")
        queries = texts.join(pairs.group_by("same").agg(pl.col("time").min()), on="same")
        queries = queries.with_columns(qid=_hashes(queries["same"])).sort("qid")
        queries = self._with_splits(queries)
        pairs = pairs.join(queries.select("same", "qid", "until"), on="same")
        late, pairs = _parted(pairs, pl.col("time") >= pl.col("until"))
        left_out |= {"pairs_below_min_count": len(rare), "pairs_logged_after_their_split": len(late)}
        return Labels(
            queries.select("qid", "text", "split"),
            pairs.select("qid", "pid", "count").sort("qid", "pid"),
            {name: count for name, count in left_out.items() if count},
        )

    def _usable(self, found: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, int]]:
        """The rows with a passage of the corpus and a query with a word, and how many lines the others are.

        The column `same` is what equal queries have in common.
        """
        known = self._known(found["pid"])
        unknown, found = _parted(found, ~pl.col("pid").is_in(known.implode()))
        if found.is_empty():
            raise UserError(
                f"{self.log}, pid: no passage of the log is in {self.corpus}; write the ids that are there as _id"
            )
        found = found.with_columns(same=normal_form(pl.col("text")))
        wordless, found = _parted(found, ~pl.col("same").str.contains(r"[\p{L}\p{N}]"))
        tables = {"rows_of_unknown_passages": unknown, "rows_without_a_word": wordless}
        left_out = {name: int(rows["rows"].sum()) for name, rows in tables.items()}
        lost = left_out["rows_of_unknown_passages"] / (int(found["rows"].sum()) + sum(left_out.values()))
        if lost > MANY:
            log.warning(
                "warning: %s: the passages of %.0f%% of its rows are not in %s", self.log, 100 * lost, self.corpus
            )
        return found, left_out

    def _read(self) -> pl.DataFrame:
        """The log with equal rows added up, as `LOGGED`."""
        rows = tqdm(self._rows(), desc="log", unit=" rows", disable=None)
        found, waiting = pl.DataFrame(schema=LOGGED), list[pl.DataFrame]()
        for batch in batched(rows):
            waiting.append(pl.DataFrame(batch, LOGGED, orient="row"))
            if len(waiting) * ROW_GROUP > max(WAITING, len(found)):
                found, waiting = _added(pl.concat([found, *waiting]), "text", "pid"), []
        found = _added(pl.concat([found, *waiting]), "text", "pid")
        if found.is_empty():
            raise UserError(f"{self.log}: no rows; add some with a query and the id of the passage that was chosen")
        return found

    def _rows(self) -> Iterator[Row]:
        timed = self._split == "time"
        for place, row in _READERS[self.log.name.removesuffix(".gz")](self.log):
            pid = row.get("pid")
            yield (
                _text(place, row.get("query")),
                check_id(place, "pid", str(pid) if type(pid) is int else pid),
                _count(place, row.get("count")),
                1,
                _time(place, row.get("time")) if timed else None,
            )

    def _known(self, pids: pl.Series) -> pl.Series:
        """Those of the ids that the corpus has."""
        ids = Ids()
        for batch in batched(row.pid for _, row in self.passages()):
            ids.add(batch)
        ids.check_unique(((place, row.pid) for place, row in self.passages()), "passage id")
        pids = pids.unique()
        return pids.filter(pl.Series(ids.contain(pids)))

    def _with_splits(self, queries: pl.DataFrame) -> pl.DataFrame:
        """Add `split`, and `until`: what was first logged from then on is too late for the query's split (or null).

        Raises:
            UserError: a split gets no query.
        """
        if self._split == "hash":
            splits = [split_of(qid, dev=self._dev, test=self._test) for qid in queries["qid"]]
            found = queries.with_columns(split=pl.Series(splits, dtype=pl.String), until=pl.lit(None, pl.Float64))
        else:
            found = _by_time(queries, self._dev, self._test)
        empty = [split for split in SPLITS if split not in found["split"].unique()]
        if empty:
            cure = "data.test_fraction or data.dev_fraction" + ("" if self._split == "hash" else ", or data.split")
            told = f"none of {len(found)} queries is in split {empty[0]}"
            raise UserError(f"{self.log}: {told}; log more, or change {cure}")
        return found


def normal_form(text: pl.Expr) -> pl.Expr:
    """What equal queries have in common: letters in lower case, without punctuation, one blank between words."""
    plain = text.str.normalize("NFKC").str.to_lowercase().str.replace_all(PUNCTUATION, " ")
    return plain.str.replace_all(r"\s+", " ").str.strip_chars()


def _by_time(queries: pl.DataFrame, dev: float, test: float) -> pl.DataFrame:
    """The queries that came up last are test, those before them dev. Queries of one time are in one split."""
    times, n = queries["time"].sort(), len(queries)
    n_test = max(1, round(test * n))
    n_dev = max(1, round(dev * (n - n_test)))
    test_from, dev_from = times[n - n_test], times[max(0, n - n_test - n_dev)]
    time = pl.col("time")
    split = pl.when(time >= test_from).then(pl.lit("test")).when(time >= dev_from).then(pl.lit("dev"))
    until = pl.when(time >= test_from).then(None).when(time >= dev_from).then(test_from).otherwise(dev_from)
    return queries.with_columns(split=split.otherwise(pl.lit("train")), until=until.cast(pl.Float64))


def _added(found: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Rows with equal keys as one. Whole numbers are added up, so that the order of the threads does not matter."""
    return found.group_by(keys).agg(pl.col("count", "rows").sum(), pl.col("time").min())


def _parted(table: pl.DataFrame, condition: pl.Expr) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows that a condition holds for, and the others."""
    mask = table.select(condition.fill_null(False)).to_series()
    return table.filter(mask), table.filter(~mask)


def _texts(found: pl.DataFrame) -> pl.DataFrame:
    """Each query as it was written most often; of several such texts the first in the alphabet."""
    counted = found.group_by("same", "text").agg(pl.col("count").sum())
    return counted.sort("same", -pl.col("count"), "text").unique("same", keep="first").select("same", "text")


def _hashes(texts: pl.Series) -> pl.Series:
    """The stable hash of each text; only a part of the texts are Python objects at a time."""
    rows = (stable_hash(text) for (text,) in texts.to_frame().iter_rows())
    return pl.concat([pl.Series(dtype=pl.String), *(pl.Series(part, dtype=pl.String) for part in batched(rows))])


def _read_tsv(path: Path) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The rows of a tab-separated file; quotes mean nothing in it."""
    names: list[str] = []
    for number, line in read_lines(path):
        place, columns = Place(path, f"line {number}"), line.split("\t")
        if number == 1:
            names = _checked_header(place, columns, "write them into the first line, with a tab between them")
            continue
        if len(columns) != len(names):
            raise UserError(
                f"{place}: {len(columns)} columns, not {len(names)}; write {', '.join(names)} with a tab between them"
            )
        yield place, dict(zip(names, columns, strict=True))


def _read_parquet(path: Path) -> Iterator[tuple[Place, dict[str, Any]]]:
    try:
        with pq.ParquetFile(path, pre_buffer=False) as table:
            names = _checked_header(Place(path, "columns"), table.schema_arrow.names, "name one so")
            wanted = [name for name in (*NEEDED, *OPTIONAL) if name in names]
            number = 0
            for batch in table.iter_batches(batch_size=ROW_GROUP, columns=wanted):
                for row in pa.Table.from_batches([batch]).cast(_microseconds(batch.schema), safe=False).to_pylist():
                    yield Place(path, f"row {number}"), row
                    number += 1
    except (pa.ArrowInvalid, OSError) as error:
        why = " ".join(str(error).split())
        raise UserError(f"{path}: not a readable Parquet file ({why}); write it again") from error


def _microseconds(schema: pa.Schema) -> pa.Schema:
    """The schema with times that Python can hold: of nanoseconds only pandas makes objects."""
    for i, field in enumerate(schema):
        if pa.types.is_timestamp(field.type):
            schema = schema.set(i, field.with_type(pa.timestamp("us", field.type.tz)))
    return schema


_READERS = {"log.tsv": _read_tsv, "log.jsonl": read_json_lines, "log.parquet": _read_parquet}


def _checked_header(place: Place, names: list[str], cure: str) -> list[str]:
    for name in NEEDED:
        if name not in names:
            wanted = f"columns are {', '.join(NEEDED)} and, if there, {', '.join(OPTIONAL)}"
            raise UserError(f"{place}: no column {name} in {shorten(', '.join(names))}: {wanted}; {cure}")
    repeated = [name for name in (*NEEDED, *OPTIONAL) if names.count(name) > 1]
    if repeated:
        raise UserError(f"{place}: two columns {repeated[0]}; keep one")
    return names


def _text(place: Place, value: object) -> str:
    if value is None:
        raise UserError(f"{place}, query: missing; add it or remove the row")
    return " ".join(check_string(place, "query", value).split())


def _count(place: Place, value: object) -> int:
    if value is None:
        return 1
    count = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if type(count) is not int or not 0 <= count <= LARGEST:
        raise UserError(f"{place}, count: {shorten(value)} is not a whole number from 0 to {LARGEST:,}; correct it")
    return count


def _time(place: Place, value: object) -> float:
    """A number as it is, and a date or a time of day in Unix seconds."""
    cure = "; or take data.split: hash"
    if value is None:
        raise UserError(f"{place}, time: missing, which data.split: time needs; add it{cure}")
    time = value
    if isinstance(time, str):
        time = _parsed(time)
    if isinstance(time, date) and not isinstance(time, datetime):
        time = datetime(time.year, time.month, time.day)
    if isinstance(time, datetime):
        time = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    if isinstance(time, int | float) and not isinstance(time, bool) and math.isfinite(time):
        return float(time)
    raise UserError(
        f"{place}, time: {shorten(value)} is no time, which data.split: time needs; write ISO 8601 such as "
        f"2024-05-31T12:00:00, or Unix seconds{cure}"
    )


def _parsed(text: str) -> datetime | float | None:
    for read in (float, datetime.fromisoformat):
        try:
            return read(text)
        except ValueError:
            continue
    return None
