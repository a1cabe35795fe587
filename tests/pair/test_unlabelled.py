"""The table of unlabelled queries, and the mistakes in a user's file."""

import gzip
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.records import QUERIES
from gnn_encoder.core.storage.tables import write_table
from gnn_encoder.pair.unlabelled import own_file, write_queries


@pytest.fixture
def hidden(tmp_path: Path) -> Path:
    path = tmp_path / "hidden.parquet"
    write_table(path, QUERIES, [pa.record_batch([["q7", "q9"], ["seven?", "nine?"], [[], []]], QUERIES)])
    return path


def written(tmp_path: Path, hidden: Path, own: Path | None) -> list[tuple[str, str]]:
    write_queries(tmp_path / "queries.parquet", hidden, own)
    return pl.read_parquet(tmp_path / "queries.parquet").select("qid", "text").rows()


def test_hidden_ones_come_first_then_the_users_own(tmp_path: Path, hidden: Path) -> None:
    own = tmp_path / "own.txt.gz"
    own.write_bytes(gzip.compress(b"what  is\tthis?\nand that?\n"))
    first = [("q7", "seven?"), ("q9", "nine?")]
    assert written(tmp_path, hidden, None) == first
    assert written(tmp_path, hidden, own) == [*first, ("unlabelled-0", "what is this?"), ("unlabelled-1", "and that?")]


def test_generated_queries_are_a_table_with_texts(tmp_path: Path, hidden: Path) -> None:
    own = tmp_path / "generated.parquet"
    pl.DataFrame({"passage": [3, 3], "text": ["one?", "two?"]}).write_parquet(own)
    assert written(tmp_path, hidden, own)[2:] == [("unlabelled-0", "one?"), ("unlabelled-1", "two?")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("own.txt", b"one?\n \t\ntwo?\n", "own.txt, line 2, query: '' is empty; give it a text or remove the row"),
        ("own.txt", b"one?\n\xff\n", "own.txt, line 2, byte 1: 0xff is not UTF-8"),
        ("own.parquet", b"PAR", "own.parquet: not a readable Parquet file"),
    ],
)
def test_mistakes(tmp_path: Path, hidden: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as caught:
        written(tmp_path, hidden, tmp_path / name)
    assert str(caught.value).removeprefix(f"{tmp_path}/").startswith(message) and "\n" not in str(caught.value)


def test_a_table_without_texts(tmp_path: Path, hidden: Path) -> None:
    own = tmp_path / "own.parquet"
    pl.DataFrame({"query": ["one?"]}).write_parquet(own)
    with pytest.raises(UserError, match="has no column text, which pair.unlabelled must have"):
        written(tmp_path, hidden, own)


def test_no_queries_at_all(tmp_path: Path) -> None:
    hidden = tmp_path / "none.parquet"
    write_table(hidden, QUERIES, [])
    with pytest.raises(UserError, match="no unlabelled queries; set pair.unlabelled_fraction above 0"):
        written(tmp_path, hidden, None)


def test_the_users_file(tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    with pytest.raises(UserError, match=r"pair\.unlabelled is '.*own\.txt': no such file; correct it"):
        own_file(str(own))
    own.write_text("one?\n")
    assert own_file(str(own)) == own
    assert own_file(None) is None
