"""A user's own queries: those without labels, those generated for the passages, and the mistakes in their files."""

import gzip
import json
import logging
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.tables import QUERIES
from gnn_encoder.data import queries as module
from gnn_encoder.data.queries import own_file, own_queries, write_generated

from ..texts import write_passages

LABELLED = [pl.Series("train", ["Seven  years?"]), pl.Series("test", ["nine?"])]  # the texts of two splits


def read(own: Path) -> list[str]:
    found = own_queries(own, LABELLED)
    assert all(answers == [] for answers in found["answers"].to_list())
    assert found["qid"].to_list() == [f"unlabelled-{number}" for number in range(len(found))]
    return found["text"].to_list()


def test_unlabelled(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Queries of the data and repeated ones are left out; generated queries are a table with texts."""
    caplog.set_level(logging.INFO)
    own = tmp_path / "own.txt"
    with pytest.raises(UserError, match=r"data\.unlabelled is '.*own\.txt': no such file; correct it"):
        own_file(str(own))
    own.write_text("seven years?\none?\nONE\nNine\ntwo?\n one? \nc#\nc\n?\n!\n?\n")
    assert read(own) == ["one?", "two?", "c#", "c", "?", "!"]
    assert caplog.messages == [f"{own}: 6 queries; 5 more repeat one of them or of the data's, and are left out"]
    (tmp_path / "own.txt.gz").write_bytes(gzip.compress(b"what  is\tthis?\nand that?\n"))
    assert read(tmp_path / "own.txt.gz") == ["what is this?", "and that?"]
    pl.DataFrame({"passage": [3, 3], "text": ["one?", "two?"]}).write_parquet(tmp_path / "generated.parquet")
    assert read(tmp_path / "generated.parquet") == ["one?", "two?"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("own.txt", b"one?\n\xe2\x80\x8b\n", "own.txt, line 2, query: '\\u200b' is empty; give it a text"),
        ("own.parquet", None, "own.parquet, columns: 0 columns text in 'query': there must be text"),
    ],
)  # fmt: skip
def test_bad_unlabelled(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is None:
        pl.DataFrame({"query": ["one?"]}).write_parquet(tmp_path / name)
    else:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as caught:
        read(tmp_path / name)
    assert str(caught.value).removeprefix(f"{tmp_path}/").startswith(message) and "\n" not in str(caught.value)


# --- generated --------------------------------------------------------------------------------------------------------

# 1 has three, one more than are asked for; 0 has one; the file is not in the passages' order.
LINES = [("1", "b one"), ("2", "c one"), ("1", "b two"), ("zz", "nobody's"), ("0", " a  one "), ("2", "c two")]
LINES += [("1", "b three"), ("0", "  ")]
EXPECTED = ["a one", "a one", "b one", "b two", "c one", "c two"]
LISTS = [{"id": one, "predicted_queries": [text for pid, text in LINES if pid == one]} for one in dict(LINES)]
FILES: dict[str, list[Any]] = {
    "q.tsv": [f"{pid}\t{text}" for pid, text in LINES],
    "q.jsonl.gz": LISTS,  # as castorini/msmarco_v1_passage_doc2query-t5_expansions
    "q.jsonl": [{"_id": pid, "text": "?", "query": text} for pid, text in LINES],
}


@pytest.fixture
def passages(tmp_path: Path) -> Path:
    return write_passages(tmp_path / "passages.parquet", [""] * 3, ["a", "b", "c"])


@pytest.mark.parametrize(("name", "at_a_time"), [("q.tsv", 1), ("q.jsonl.gz", 2), ("q.jsonl", 100)])
def test_the_first_of_each_passage(
    tmp_path: Path, passages: Path, monkeypatch: pytest.MonkeyPatch, name: str, at_a_time: int
) -> None:
    monkeypatch.setattr(module, "PASSAGES_AT_A_TIME", at_a_time)
    text = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in FILES[name]).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    write_generated(tmp_path / name, passages, tmp_path / "queries.parquet", tmp_path / "work", 2)
    table = pq.read_table(tmp_path / "queries.parquet")
    assert table.schema.equals(QUERIES)
    assert table.column("text").to_pylist() == EXPECTED
    assert table.column("qid").to_pylist() == ["0-0", "0-1", "1-0", "1-1", "2-0", "2-1"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("q.tsv", "0\ta\n2\tb\n", "q.tsv: 1 passages without a query, the first '1'; add lines for them"),
        ("q.jsonl", '{"id": 7, "query": "a"}\n', "line 1, id: 7 is not a string"),
        ("q.jsonl", '{"id": "0", "predicted_queries": "a"}\n', "predicted_queries: 'a' is not a list"),
        ("q.txt", "a\n", "must end in .tsv or .jsonl"),
    ],
)
def test_bad_generated(tmp_path: Path, passages: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError) as error:
        write_generated(tmp_path / name, passages, tmp_path / "queries.parquet", tmp_path / "work", 2)
    assert message in str(error.value)
