"""Source `log`: a corpus and a query log, one line for each time that a passage was chosen for a query.

    corpus.jsonl                           as in BEIR's format
    log.tsv, log.jsonl or log.parquet      columns query, pid and, if there, count and time; others are passed over

The text files are plain or .gz. Columns go by the names in the header (JSON: the keys). A line without a count counts
as 1. A time is ISO 8601 (UTC, if it names no zone) or Unix seconds or milliseconds, of 1980 or later.

Queries that differ only in case, punctuation, white space and invisible characters are one query, written as it was
most often; its id is a hash of what they have in common. The counts of a query and a passage are added up.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import TypeAdapter, ValidationError

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.errors import UserError, shorten
from gnn_encoder.base.tables import SPLITS, batched
from gnn_encoder.data.beir import passage_of
from gnn_encoder.data.identical import one_form, without_case
from gnn_encoder.data.lines import (
    as_it_is,
    check_columns,
    check_folder,
    find,
    read_columns,
    read_json_lines,
    read_parquet,
    require,
)
from gnn_encoder.data.rows import (
    Judgement,
    Place,
    Query,
    Row,
    Source,
    check_id,
    check_string,
    checked,
    split_of,
    stable_hash,
    whole,
)
from gnn_encoder.pipeline.params import Data

LOGS = ("log.tsv", "log.jsonl", "log.parquet")
NEEDED, OPTIONAL = ("query", "pid"), ("count", "time")
TIME = TypeAdapter(datetime)
# Unix seconds from 1980 to 2603, above which pydantic takes a number for milliseconds. A calendar date such as 20240531
# is below, and microseconds are above the milliseconds of these years.
FIRST, LAST = 315_532_800, 20_000_000_000
CURE = "write ISO 8601 such as 2024-05-31T12:00:00, or Unix seconds"
ABSENT = (None, "")  # what stands for no count and no time
LARGEST = 10**12  # so that millions of counts add up in 64 bits
# Signs that tell two queries apart stay: c# is not c, and 50% is not 50.
PUNCTUATION = r"[\p{P}--[#%&@]]+"
# Rows that have a query and a passage in common: their text and id, counts added up, how many, the first one's time.
LOGGED = pl.Schema(
    {"text": pl.String(), "pid": pl.String(), "count": pl.Int64(), "rows": pl.Int64(), "time": pl.Float64()}
)
Labels = tuple[pl.DataFrame, dict[str, int]]  # columns qid, text, split, pid, count, sorted by ids; what is left out


def open_log(folder: Path, data: Data) -> Source:
    """A folder of a corpus and its query log. Memory: the pairs of a query and a passage, and the corpus's ids."""
    check_folder(folder, "corpus.jsonl")
    corpus, path = require(folder, "corpus.jsonl"), require(folder, *LOGS)
    others = [other for name in LOGS if (other := find(folder, name)) and other != path]
    if others:
        raise UserError(f"{path}: {others[0].name} is there as well; keep one log")
    labels = cache(partial(read_labels, path, corpus, data))
    return Source(
        files=[corpus, path],
        passages=partial(read_json_lines, corpus, passage_of),
        queries={name: partial(_queries, path, labels, name) for name in SPLITS},
        judgements={name: partial(_judgements, path, labels, name) for name in SPLITS},
        dropped=lambda: labels()[1],
    )


def _queries(path: Path, labels: Callable[[], Labels], split: str) -> Iterator[tuple[Place, Query]]:
    """The queries of a split, each once, sorted by id."""
    chosen = labels()[0].filter(split=split).unique("qid", keep="first", maintain_order=True)
    for qid, text in chosen.select("qid", "text").iter_rows():
        yield Place(path, f"query {shorten(text)}"), Query(qid, text)


def _judgements(path: Path, labels: Callable[[], Labels], split: str) -> Iterator[tuple[Place, Judgement]]:
    """The passages that were chosen for the queries of a split, with grade 1 and their counts."""
    for qid, text, pid, count in labels()[0].filter(split=split).select("qid", "text", "pid", "count").iter_rows():
        yield Place(path, f"query {shorten(text)}"), Judgement(qid, pid, 1, count)


# --- what a log says --------------------------------------------------------------------------------------------------


def read_labels(path: Path, corpus: Path, data: Data) -> Labels:
    """The pairs of a query and a passage that a log says, and how many rows and pairs are left out, by why."""
    found, left_out = _usable(path, corpus, timed=data.split == "time")
    # Each query as it was written most often; of several such texts the first in the alphabet.
    counted = found.group_by("same", "text").agg(pl.col("count").sum()).sort("same", -pl.col("count"), "text")
    pairs = _added(found, "same", "pid")
    rare, pairs = _parted(pairs, pl.col("count") < data.min_count)
    if pairs.is_empty():
        if not found["count"].sum():
            raise UserError(f"{path}, count: none is above 0; correct them, or remove the column")
        cure = "log more, or lower data.min_count"
        raise UserError(f"{path}: no query and passage were logged {data.min_count} times or more; {cure}")
    queries = pairs.group_by("same").agg(pl.col("time").min())
    queries = queries.join(counted.unique("same", keep="first").select("same", "text"), on="same")
    hashes = [stable_hash(text) for text in queries["same"]]
    queries = _divided(path, queries.with_columns(qid=pl.Series(hashes)), data)
    pairs = pairs.join(queries.select("same", "qid", "text", "split", "until"), on="same")
    late, pairs = _parted(pairs, pl.col("time") >= pl.col("until"))
    left_out |= {"pairs_below_min_count": len(rare), "pairs_logged_after_their_split": len(late)}
    dropped = {name: count for name, count in left_out.items() if count}
    return pairs.select("qid", "text", "split", "pid", "count").sort("qid", "pid"), dropped


def _usable(path: Path, corpus: Path, *, timed: bool) -> Labels:
    """The rows with a passage of the corpus and a query with a word, as `LOGGED`, and how many the others are.

    The column `same` is what equal queries have in common.
    """
    rows = tqdm(_rows(path, timed=timed), desc="log", unit=" rows")
    parts = [_added(pl.DataFrame(batch, LOGGED, orient="row"), "text", "pid") for batch in batched(rows)]
    if not parts:
        raise UserError(f"{path}: no rows; add some with a query and the id of the passage that was chosen")
    found = _added(pl.concat(parts), "text", "pid")
    batches = batched(row.pid for _, row in read_json_lines(corpus, passage_of))
    pids = pl.concat([pl.Series(dtype=pl.String), *(pl.Series(batch, dtype=pl.String) for batch in batches)])
    unknown, found = _parted(found, ~pl.col("pid").is_in(pids.implode()))
    if found.is_empty():
        raise UserError(f"{path}, pid: no passage of the log is in {corpus}; write the ids that are there as _id")
    wordless, usable = _parted(
        found.with_columns(same=normal_form(pl.col("text"))), ~pl.col("same").str.contains(r"[\p{L}\p{N}]")
    )
    if usable.is_empty():
        raise UserError(f"{path}, query: none has a letter or a digit; write what was asked")
    lost = {"rows_of_unknown_passages": unknown, "rows_without_a_word": wordless}
    return usable, {name: int(rows["rows"].sum()) for name, rows in lost.items()}


def normal_form(text: pl.Expr) -> pl.Expr:
    """What equal queries have in common: the one form of their texts, in lower case and without punctuation."""
    return without_case(one_form(text.str.normalize("NFKC").str.replace_all(PUNCTUATION, " ")))


def _added(found: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Rows with equal keys as one. Whole numbers are added up, so that the order of the threads does not matter."""
    return found.group_by(keys).agg(pl.col("count", "rows").sum(), pl.col("time").min())


def _parted(table: pl.DataFrame, condition: pl.Expr) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows that a condition holds for, and the others."""
    mask = table.select(condition.fill_null(False)).to_series()
    return table.filter(mask), table.filter(~mask)


def _divided(path: Path, queries: pl.DataFrame, data: Data) -> pl.DataFrame:
    """Add `split`, and `until`: what was first logged from then on is too late for the query's split (or null)."""
    if data.split == "hash":
        splits = [split_of(qid, dev=data.dev_fraction, test=data.test_fraction) for qid in queries["qid"]]
        found = queries.with_columns(split=pl.Series(splits, dtype=pl.String), until=pl.lit(None, pl.Float64))
    else:
        found = _by_time(queries, data.dev_fraction, data.test_fraction)
    empty = [split for split in SPLITS if split not in found["split"]]
    if empty:
        cure = "data.test_fraction or data.dev_fraction" + ("" if data.split == "hash" else ", or data.split")
        told = f"none of {len(found)} queries is in split {empty[0]}"
        raise UserError(f"{path}: {told}; log more, or change {cure}")
    return found


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


# --- its rows ---------------------------------------------------------------------------------------------------------


def _rows(path: Path, *, timed: bool) -> Iterator[tuple[str, str, int, int, float | None]]:
    """The rows of a log as `LOGGED`, checked. All times have one form, whether they are read or not."""
    needed, optional = (NEEDED, OPTIONAL) if not timed else ((*NEEDED, "time"), ("count",))
    first: tuple[str, Place, object] | None = None

    def logged(place: Place, row: dict[str, Any]) -> tuple[str, str, int, int, float | None]:
        nonlocal first
        if (time := row.get("time")) not in ABSENT:
            form = _form(place, time)
            first = first or (form, place, time)
            if form != first[0]:
                told = f"{shorten(time)} is {form}, but {first[1].row} has {first[0]}, {shorten(first[2])}"
                raise UserError(f"{place}, time: {told}; write all times of the log in one form")
        text, pid = row.get("query"), row.get("pid")
        if text is None:
            raise UserError(f"{place}, query: missing; add it or remove the row")
        text = " ".join(check_string(place, "query", text).split())
        pid = check_id(place, "pid", str(pid) if type(pid) is int else pid)
        return text, pid, _count(place, row.get("count")), 1, _time(place, time) if timed else None

    return (row for _, row in _read(path, logged, needed, optional))


def _read(
    path: Path, check: Callable[[Place, dict[str, Any]], Row], needed: Sequence[str], optional: Sequence[str]
) -> Iterator[tuple[Place, Row]]:
    """What `check` makes of the rows of a log of any form, by the names of its columns."""
    if path.suffix == ".parquet":
        return checked(read_parquet(path, needed, optional), check)
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        return read_json_lines(path, check)
    place, names = next(read_columns(path, None, as_it_is), (Place(path, "line 1"), list[str]()))
    check_columns(place, names, needed, optional, form="; the first line names them, with a tab between")

    def named(place: Place, columns: list[str]) -> Row | None:
        return None if place == header else check(place, dict(zip(names, columns, strict=True)))

    header = place
    return ((place, row) for place, row in read_columns(path, names, named) if row is not None)


def _count(place: Place, value: object) -> int:
    if value in ABSENT:
        return 1
    count = whole(value)
    if count is None or not 0 <= count <= LARGEST:
        raise UserError(f"{place}, count: {shorten(value)} is not a whole number from 0 to {LARGEST:,}; correct it")
    return count


def _form(place: Place, value: object) -> str:
    """What a time is written as; numbers as `TIME` takes them."""
    try:
        number = float(value) if isinstance(value, str | int | float) else None
    except ValueError:
        number = None
    if number is None:
        return "a date and time"
    for form, scale in (("seconds", 1), ("milliseconds", 1000)):
        if FIRST * scale <= number <= LAST * scale:
            return form
    raise UserError(f"{place}, time: {shorten(value)} is no Unix time of 1980 or later in (milli)seconds; {CURE}")


def _time(place: Place, value: object) -> float:
    """Unix seconds of a number (of seconds or milliseconds), a date or a time of day."""
    try:
        time = TIME.validate_python(value)
    except ValidationError as error:
        cure = f"{CURE}; or take data.split: hash"
        raise UserError(f"{place}, time: {shorten(value)} is no time, which data.split: time needs; {cure}") from error
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
