"""A query log; a user's own queries: those without labels, those generated for the passages; their mistakes."""

import gzip
import logging
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.tables import QUERIES
from gnn_encoder.data import queries as module
from gnn_encoder.data.prepare import open_source
from gnn_encoder.data.queries import normal_form, own_queries, split_of, stable_hash, write_generated

from ..texts import write_passages
from .conftest import Refused, Write, data_of
from .sources import LOG, LOGGED, SOURCES, YEW, lines

# --- a log ------------------------------------------------------------------------------------------------------------


def test_a_floor_for_counts(folder: Write, refused: Refused) -> None:
    keys, files, *_ = SOURCES["log"]
    path = str(folder(files | {"log.tsv": files["log.tsv"] + "lime\tp2\t2\n"}))
    source = open_source(data_of(path=path, min_count=2, **keys))
    found = {split: [row for _, row in read()] for split, read in source.judgements.items()}
    assert found["train"] == [(YEW, "p2", 1, 5)] and found["test"] == [(stable_hash("lime"), "p2", 1, 2)]
    assert source.dropped() == {"rows_without_a_word": 1, "pairs_below_min_count": 4}  # yew p1, oars, oak tree, bud
    told = "log.tsv: no query with a letter or a digit was logged 9 times or more with a passage; log more, correct"
    refused(told, path=path, min_count=9, **keys)


def test_without_counts_each_row_is_one(folder: Write) -> None:
    table = lines("user\tpid\tquery", *(f"x\t{pid}\t{query}" for query, pid, _ in LOGGED))
    source = open_source(data_of(path=str(folder(LOG | {"log.tsv": table})), **SOURCES["log"].keys))
    assert [row for _, row in source.judgements["train"]()][1:] == [(YEW, "p1", 1, 1), (YEW, "p2", 1, 2)]


def test_rows_are_added_up_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that memory is that of the pairs: of 1,000 rows, here never more than 30 wait."""
    seen, added = list[int](), module._added
    monkeypatch.setattr(module, "WAITING", 20)
    monkeypatch.setattr(module, "_added", lambda table, *keys: seen.append(len(table)) or added(table, *keys))
    row = {"text": ["ash", "yew"], "pid": ["p1", "p2"], "count": [2, 3], "rows": [1, 1]}
    found = module._summed(pl.DataFrame(row, module.LOGGED) for _ in range(500))
    assert found.sort("text").rows() == [("ash", "p1", 1000, 500), ("yew", "p2", 1500, 500)] and max(seen) <= 30


def test_hash_splits_have_their_shares_and_do_not_move() -> None:
    keys = [stable_hash(str(i)) for i in range(20_000)]
    found = [split_of(key, dev=0.1, test=0.2) for key in keys]
    shares = {split: found.count(split) / len(keys) for split in ("train", "dev", "test")}
    assert shares == pytest.approx({"train": 0.72, "dev": 0.08, "test": 0.2}, abs=0.01)
    more = [split_of(key, dev=0.1, test=0.3) for key in keys]
    assert all(b == "test" for a, b in zip(found, more, strict=True) if a == "test")
    assert stable_hash("ash") == "a022a22c1a1a6a37"  # of another process, and of every other machine


def test_what_is_one_query() -> None:
    """Also with a soft hyphen, a blank of no width, and characters that Unicode stores in two ways."""
    same = [("Is yew poisonous?", "is YEW\tpoisonous"), ("e-mail", "e mail"), ("Straße", "STRASSE")]
    same += [("\u0130stanbul", "istanbul"), ("pass\u00adword", "PASS\u200bword"), ("cafe\u0301", "CAFÉ")]
    for pairs, expected in ((same, True), ([("c#", "c"), ("50%", "50")], False)):
        table = pl.DataFrame(pairs, ["one", "other"], orient="row").select(normal_form(pl.all()))
        assert (table["one"] == table["other"]).to_list() == [expected] * len(pairs)


# --- without labels ---------------------------------------------------------------------------------------------------


def own(path: Path, content: bytes) -> list[str]:
    """The texts of a user's queries, beside those of two splits."""
    path.write_bytes(content)
    found = own_queries(path, [pl.Series("train", ["Seven  years?"]), pl.Series("test", ["nine?"])])
    assert found["qid"].to_list() == [f"unlabelled-{number}" for number in range(len(found))]
    return found["text"].to_list()


def test_unlabelled(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Queries of the data and repeated ones are left out."""
    caplog.set_level(logging.INFO)
    path = tmp_path / "own.txt"
    content = b"seven years?\none?\nONE\nNine\ntwo?\n one? \nc#\nc\n?\n!\n?\n"
    assert own(path, content) == ["one?", "two?", "c#", "c", "?", "!"]
    assert caplog.messages == [f"{path}: 6 queries; 5 more repeat one of them or of the data's, and are left out"]
    assert own(tmp_path / "own.txt.gz", gzip.compress(b"what  is\tthis?\nthat?\n")) == ["what is this?", "that?"]


# --- generated --------------------------------------------------------------------------------------------------------

# 1 has three, one more than are asked for; 0 has one; the file is not in the passages' order.
LINES = [("1", "b one"), ("2", "c one"), ("1", "b two"), ("zz", "nobody's"), ("0", " a  one "), ("2", "c two")]
LINES += [("1", "b three"), ("0", "  ")]
EXPECTED = ["a one", "a one", "b one", "b two", "c one", "c two"]
FILES: dict[str, list[Any]] = {
    "q.tsv": [f"{pid}\t{text}" for pid, text in LINES],
    "q.jsonl": [{"_id": pid, "text": "?", "query": text} for pid, text in LINES],
    "q.jsonl.gz": [  # as castorini/msmarco_v1_passage_doc2query-t5_expansions
        {"id": one, "predicted_queries": [text for pid, text in LINES if pid == one]} for one in dict(LINES)
    ],
}


def generated(folder: Path, name: str, content: bytes) -> Path:
    """The table of two queries of each of three passages."""
    target = folder / "queries.parquet"
    passages = write_passages(folder / "passages.parquet", [""] * 3, ["a", "b", "c"])
    (folder / name).write_bytes(content)
    write_generated(folder / name, passages, target, folder / "work", 2)
    return target


@pytest.mark.parametrize(("name", "at_a_time"), [("q.tsv", 1), ("q.jsonl.gz", 2), ("q.jsonl", 100)])
def test_the_first_of_each_passage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, at_a_time: int) -> None:
    monkeypatch.setattr(module, "PASSAGES_AT_A_TIME", at_a_time)
    content = lines(*FILES[name]).encode()
    table = pq.read_table(generated(tmp_path, name, gzip.compress(content) if name.endswith(".gz") else content))
    assert table.schema.equals(QUERIES) and table.column("text").to_pylist() == EXPECTED
    assert table.column("qid").to_pylist() == ["0-0", "0-1", "1-0", "1-1", "2-0", "2-1"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("own.txt", b"one?\n\xe2\x80\x8b\n", "own.txt, line 2, query: '\\u200b' is empty; give it a text"),
        ("q.tsv", b"0\ta\n2\tb\n", "q.tsv: 1 passages without a query, the first '1'; add lines for them"),
        ("q.jsonl", b'{"id": 7, "query": "a"}\n', "q.jsonl, line 1, id: 7 is not a string"),
        ("q.jsonl", b'{"id": "0", "predicted_queries": "a"}\n', "line 1, predicted_queries: 'a' is not a list"),
        ("q.txt", b"a\n", "q.txt, line 1: 1 columns, not 2; write id, query with a tab between them"),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    with pytest.raises(UserError) as error:
        own(tmp_path / name, content) if name.startswith("own") else generated(tmp_path, name, content)
    assert message in str(error.value) and "\n" not in str(error.value)
