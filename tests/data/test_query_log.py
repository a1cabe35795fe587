"""A query log -> tables: what is one query, what is counted, how it is divided, and the line for each bad row."""

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from gnn_encoder.data.query_log import normal_form
from gnn_encoder.data.rows import split_of, stable_hash

Prepared = Callable[..., Path]
Rows = Callable[[Path], list[tuple[object, ...]]]
Tables = Callable[..., dict[str, list[tuple[object, ...]]]]

CORPUS = [
    {"_id": "p1", "title": "Ash", "text": "A tree with black buds."},
    {"_id": "p2", "text": "Yew is poisonous."},
    {"_id": "p3", "text": "Oars are made of ash."},
]
# In the alphabet of their hashes: oars 12..., ash a0..., bud c4..., oak tree cc..., what is yew e3...
LOG = [
    ("What is yew?", "p2", 3),
    ("what  is\u00a0YEW", "p2", 2),
    ("WHAT IS YEW!", "p1", 1),
    ("ash", "p1", 1),
    ("ash", "p3", 7),
    ("???", "p1", 1),
    ("ash.", "p9", 4),
    ("ash.", "p9", 1),
    ("Oars", "p3", 1),
    ("oak tree", "p1", 1),
    ("bud", "p1", 0),
]
YEW, ASH, OARS, OAK = (stable_hash(text) for text in ("what is yew", "ash", "oars", "oak tree"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.mkdir()
    (path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in CORPUS))
    write_tsv(path, ["query", "pid", "count"], LOG)
    return path


def write_tsv(folder: Path, header: list[str], rows: list[tuple[object, ...]]) -> None:
    lines = ["\t".join(map(str, row)) for row in [tuple(header), *rows]]
    (folder / "log.tsv").write_text("\n".join(lines) + "\n")


@pytest.fixture
def tables(folder: Path, prepared: Prepared, rows: Rows) -> Tables:
    """The prepared tables; with these shares two queries are train, one dev, one test."""

    def run(**keys: object) -> dict[str, list[tuple[object, ...]]]:
        keys = {"dev_fraction": 0.5, "test_fraction": 0.5} | keys
        target = prepared(source="log", path=str(folder), **keys)
        return {path.relative_to(target).with_suffix("").as_posix(): rows(path) for path in target.rglob("*.parquet")}

    return run


def test_equal_queries_are_one_and_their_counts_are_added_up(tables: Tables, tmp_path: Path) -> None:
    found = tables()
    # Of three ways to write it the most frequent stays; a query keeps its place by its hash alone.
    assert found["queries/train"] == [(OAK, "oak tree", []), (YEW, "What is yew?", [])]
    assert found["queries/dev"] == [(ASH, "ash", [])]
    assert found["queries/test"] == [(OARS, "Oars", [])]
    assert found["qrels/train"] == [(OAK, "p1", 1), (YEW, "p1", 1), (YEW, "p2", 1)]
    assert found["counts"] == [(OAK, "p1", 1), (YEW, "p1", 1), (YEW, "p2", 5)]
    assert found["qrels/dev"] == [(ASH, "p1", 1), (ASH, "p3", 1)]
    left_out = json.loads((tmp_path / "out" / "statistics.json").read_text())["left_out_or_replaced"]
    assert left_out == {"rows_of_unknown_passages": 2, "rows_without_a_word": 1, "pairs_below_min_count": 1}


def test_a_floor_for_counts(folder: Path, tables: Tables, tmp_path: Path) -> None:
    write_tsv(folder, ["query", "pid", "count"], [*LOG, ("lime", "p2", 2)])
    found = tables(min_count=2)
    assert found["qrels/train"] == [(YEW, "p2", 1)] and found["counts"] == [(YEW, "p2", 5)]
    assert found["qrels/dev"] == [(ASH, "p3", 1)]
    assert found["qrels/test"] == [(stable_hash("lime"), "p2", 1)]
    left_out = json.loads((tmp_path / "out" / "statistics.json").read_text())["left_out_or_replaced"]
    assert left_out["pairs_below_min_count"] == 5  # yew p1, ash p1, oars, oak tree, bud


@pytest.mark.parametrize("form", ["jsonl.gz", "parquet", "integers"])
def test_every_form_gives_the_same_tables(form: str, folder: Path, tables: Tables) -> None:
    expected = tables()
    log = folder / "log.tsv"
    if form == "jsonl.gz":
        text = "".join(json.dumps({"query": q, "pid": p, "count": c, "user": 5}) + "\n" for q, p, c in reversed(LOG))
        (folder / "log.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    else:
        table = pl.DataFrame(LOG, schema=["query", "pid", "count"], orient="row")
        if form == "integers":  # ids that are numbers in the log are strings in the corpus
            (folder / "corpus.jsonl").write_text((folder / "corpus.jsonl").read_text().replace('"p', '"'))
            table = table.with_columns(pl.col("pid").str.slice(1).cast(pl.Int64))
        table.write_parquet(folder / "log.parquet")
    log.unlink()
    found = tables()
    if form == "integers":
        assert found["qrels/train"] == [(OAK, "1", 1), (YEW, "1", 1), (YEW, "2", 1)]
    else:
        assert found == expected


def test_counts_with_gaps_are_floats_and_a_gap_is_one(folder: Path, tables: Tables) -> None:
    """As pandas writes whole numbers with some missing; a time that is missing is none, too."""
    rows = [(text, pid, "" if count == 1 else f"{count}.0", "") for text, pid, count in LOG]
    write_tsv(folder, ["query", "pid", "count", "time"], [*rows[:-1], ("bud", "p1", 0, "2024-05-31")])
    counts = [(OAK, "p1", 1), (YEW, "p1", 1), (YEW, "p2", 5)]
    assert tables()["counts"] == counts
    (folder / "log.tsv").unlink()
    table = pl.DataFrame(LOG, schema=["query", "pid", "count"], orient="row")
    table.with_columns(pl.col("count").cast(pl.Float64).replace(1, None)).write_parquet(folder / "log.parquet")
    assert tables()["counts"] == counts


def test_without_counts_each_row_is_one(folder: Path, tables: Tables) -> None:
    write_tsv(folder, ["user", "pid", "query"], [("x", pid, text) for text, pid, _ in LOG])
    assert tables()["counts"] == [(OAK, "p1", 1), (YEW, "p1", 1), (YEW, "p2", 2)]


TIMED = [  # day of May, query, passage
    (1, "a", "p1"),
    (2, "b", "p1"),
    (3, "c", "p1"),
    (4, "d", "p1"),
    (5, "a!", "p1"),  # logged again: a stays in train, with two counts
    (5, "a", "p2"),  # a new passage for a, after dev began: left out
    (6, "e", "p1"),  # dev
    (7, "f", "p1"),  # test
    (8, " e", "p3"),  # a new passage for e, after test began: left out
    (9, "g", "p1"),  # test
    (5, "h", "p2"),  # dev
]
WRITTEN = {
    "iso": lambda day: f"2024-05-{day:02}",
    "zone": lambda day: f"2024-05-{day:02}T01:30:00+02:00",
    "unix": lambda day: str(int(datetime(2024, 5, day, tzinfo=UTC).timestamp())),
    "milliseconds": lambda day: str(int(datetime(2024, 5, day, tzinfo=UTC).timestamp()) * 1000),
    "parquet": lambda day: datetime(2024, 5, day),
    "nanoseconds": lambda day: datetime(2024, 5, day),
}


@pytest.mark.parametrize("form", WRITTEN)
def test_a_split_by_time(form: str, folder: Path, tables: Tables, tmp_path: Path) -> None:
    rows = [(text, pid, WRITTEN[form](day)) for day, text, pid in TIMED]
    write_tsv(folder, ["query", "pid", "time"], rows)
    if form in ("parquet", "nanoseconds"):
        (folder / "log.tsv").unlink()
        table = pl.DataFrame(rows, schema=["query", "pid", "time"], orient="row")
        if form == "nanoseconds":
            table = table.with_columns(pl.col("time").cast(pl.Datetime("ns")) + pl.duration(nanoseconds=1))
        table.write_parquet(folder / "log.parquet")
    # Of eight queries the last quarter is test, and of the other six the last third dev.
    found = tables(split="time", test_fraction=0.25, dev_fraction=0.33)
    texts = {split: sorted(str(row[1]) for row in found[f"queries/{split}"]) for split in ("train", "dev", "test")}
    assert texts == {"train": ["a", "b", "c", "d"], "dev": ["e", "h"], "test": ["f", "g"]}
    counts = {"a": 2, "b": 1, "c": 1, "d": 1}
    assert sorted(found["counts"]) == sorted((stable_hash(text), "p1", n) for text, n in counts.items())
    assert sorted(found["qrels/dev"]) == sorted([(stable_hash("e"), "p1", 1), (stable_hash("h"), "p2", 1)])
    left_out = json.loads((tmp_path / "out" / "statistics.json").read_text())["left_out_or_replaced"]
    assert left_out == {"pairs_logged_after_their_split": 2}


def test_hash_splits_have_their_shares_and_do_not_move() -> None:
    keys = [stable_hash(str(i)) for i in range(20_000)]
    found = [split_of(key, dev=0.1, test=0.2) for key in keys]
    shares = {split: found.count(split) / len(keys) for split in ("train", "dev", "test")}
    assert shares == pytest.approx({"train": 0.72, "dev": 0.08, "test": 0.2}, abs=0.01)
    more = [split_of(key, dev=0.1, test=0.3) for key in keys]
    assert all(b == "test" for a, b in zip(found, more, strict=True) if a == "test")
    assert stable_hash("ash") == "a022a22c1a1a6a37"  # of another process, and of every other machine


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Is yew poisonous?", "is YEW\tpoisonous", True),
        ("e-mail", "e mail", True),
        ("Straße", "STRASSE", True),
        ("\u0130stanbul", "istanbul", True),
        ("pass\u00adword", "PASS\u200bword", True),  # a soft hyphen, and a blank of no width
        ("\u200fabc \u200d ", "abc", True),
        ("cafe\u0301", "CAFÉ", True),  # NFKC
        ("c#", "c", False),
        ("50%", "50", False),
        ("c++", "c", False),
    ],
)
def test_what_is_one_query(one: str, other: str, same: bool) -> None:
    a, b = pl.DataFrame({"text": [one, other]}).select(normal_form(pl.col("text")))["text"]
    assert (a == b) is same


BAD = {
    "no query": ("log.tsv", "text\tpid\nash\tp1\n", {}, "log.tsv, line 1: 0 columns query in 'text, pid': "),
    "two columns": ("log.tsv", "query\tpid\tpid\n", {}, "log.tsv, line 1: 2 columns pid in 'query, pid, pid': "),
    "columns": ("log.tsv", "query\tpid\nash\n", {}, "log.tsv, line 2: 1 columns, not 2; write query, pid with a tab"),
    "no rows": ("log.tsv", "query\tpid\n", {}, "log.tsv: no rows; add some with a query and the id of the passage"),
    "count": (
        "log.tsv",
        "query\tpid\tcount\nash\tp1\t2.5\n",
        {},
        "log.tsv, line 2, count: '2.5' is not a whole number from 0 to 1,000,000,000,000; correct it",
    ),
    "query missing": (
        "log.jsonl",
        '{"pid": "p1"}\n',
        {},
        "log.jsonl, line 1, query: missing; add it or",
    ),
    "not Parquet": ("log.parquet", "query\tpid\n", {}, "log.parquet: not a readable Parquet file ("),
    "unknown passages": (
        "log.tsv",
        "query\tpid\nash\tp7\n",
        {},
        "log.tsv, pid: no passage of the log is in",
    ),
    "rare": (
        "log.tsv",
        "query\tpid\nash\tp1\n",
        {"min_count": 2},
        "log.tsv: no query and passage were logged 2 times or more; log more, or lower data.min_count",
    ),
    "no time": (
        "log.tsv",
        "query\tpid\nash\tp1\n",
        {"split": "time"},
        "log.tsv, line 1: 0 columns time in 'query, pid': there must be query, pid, time and may be count, each once",
    ),
    "empty time": (
        "log.tsv",
        "query\tpid\ttime\nyew\tp2\t1704103200\nash\tp1\t\n",
        {"split": "time"},
        "log.tsv, line 3, time: '' is no time, which data.split: time needs; write ISO 8601 such as",
    ),
    "signs alone": ("log.tsv", "query\tpid\n???\tp1\n", {}, "log.tsv, query: none has a letter or a digit; write what"),
    "no counts": (
        "log.tsv",
        "query\tpid\tcount\nash\tp1\t0\n",
        {},
        "log.tsv, count: none is above 0; correct them, or remove the column",
    ),
    "bad time": ("log.tsv", "query\tpid\ttime\nash\tp1\tMay\n", {"split": "time"}, "line 2, time: 'May' is no time"),
    "one time": (
        "log.tsv",
        "query\tpid\ttime\nash\tp1\t1704103200\nyew\tp2\t1704103200\nbud\tp1\t1704103200\n",
        {"split": "time"},
        "log.tsv: none of 3 queries is in split train; log more, or change data.test_fraction or data.dev_fraction, or",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_logs(name: str, folder: Path, refused: Callable[..., None]) -> None:
    file, text, keys, message = BAD[name]
    (folder / "log.tsv").unlink()
    (folder / file).write_text(text)
    refused(message, source="log", path=str(folder), **keys)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"query": ["a"]}, "log.parquet, columns: 0 columns pid in 'query': there must be query, pid"),
        ({"query": ["a", None], "pid": ["p1", "p2"]}, "log.parquet, row 1, query: missing; add it or remove the row"),
    ],
)
def test_bad_parquet(folder: Path, refused: Callable[..., None], table: dict[str, list[str]], message: str) -> None:
    (folder / "log.tsv").unlink()
    pl.DataFrame(table).write_parquet(folder / "log.parquet")
    refused(message, source="log", path=str(folder))


def test_files(folder: Path, refused: Callable[..., None]) -> None:
    (folder / "log.jsonl").write_text("{}\n")
    refused("log.tsv: log.jsonl is there as well; keep one log", source="log", path=str(folder))
    (folder / "log.jsonl").unlink()
    (folder / "log.tsv").unlink()
    refused("log.tsv: no such file, nor log.tsv.gz, log.jsonl, log.parquet; add it", source="log", path=str(folder))
    refused("data.path is null: source log needs the folder that holds corpus.jsonl", source="log")


@pytest.mark.parametrize(
    ("times", "told"),
    [
        (
            ["2024-01-01T10:00:00", "1704103200000"],
            "line 3, time: '1704103200000' is milliseconds, but line 2 has a date",
        ),
        (["1704103200", "1704103200000"], "line 3, time: '1704103200000' is milliseconds, but line 2 has seconds, '17"),
        (
            ["1704103200000000", "20240531", "1704103200", "nan"],
            "line 2, time: '1704103200000000' is no Unix time of 1980 or later in (milli)seconds; write ISO 8601 such "
            "as 2024-05-31T12:00:00, or Unix seconds (2 more: line 3, time: '20240531' is no Unix time of 1980 or "
            "later in (milli)seconds; line 5, time: 'nan' is no Unix time of 1980 or later in (milli)seconds)",
        ),
        (
            ["1704103200.5", "", "2024-01-01"],
            "log.tsv, line 4, time: '2024-01-01' is a date and time, but line 2 has seconds",
        ),
    ],
)
@pytest.mark.parametrize("split", ["hash", "time"])
def test_times_have_one_form(
    folder: Path, refused: Callable[..., None], times: list[str], told: str, split: str
) -> None:
    rows = [(f"query {number}", "p1", time) for number, time in enumerate(times) if split == "hash" or time]
    write_tsv(folder, ["query", "pid", "time"], rows)
    told = told.replace("line 4", f"line {len(rows) + 1}")
    refused(told, source="log", path=str(folder), split=split)
