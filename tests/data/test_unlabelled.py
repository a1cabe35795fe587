"""A user's queries without labels, and the mistakes in their file."""

import gzip
import logging
from pathlib import Path

import polars as pl
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.data.prepare import own_file, own_queries

LABELLED = [pl.Series("train", ["Seven  years?"]), pl.Series("test", ["nine?"])]  # the texts of two splits


def read(own: Path) -> list[tuple[str, str]]:
    found = own_queries(own, LABELLED)
    assert all(answers == [] for answers in found["answers"].to_list())
    return found.select("qid", "text").rows()


def test_text_lines(tmp_path: Path) -> None:
    own = tmp_path / "own.txt.gz"
    own.write_bytes(gzip.compress(b"what  is\tthis?\nand that?\n"))
    assert read(own) == [("unlabelled-0", "what is this?"), ("unlabelled-1", "and that?")]


def test_generated_queries_are_a_table_with_texts(tmp_path: Path) -> None:
    own = tmp_path / "generated.parquet"
    pl.DataFrame({"passage": [3, 3], "text": ["one?", "two?"]}).write_parquet(own)
    assert read(own) == [("unlabelled-0", "one?"), ("unlabelled-1", "two?")]


def test_queries_of_the_data_and_repeated_ones_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    own = tmp_path / "own.txt"
    own.write_text("seven years?\none?\nONE\nNine\ntwo?\n one? \nc#\nc\n?\n!\n?\n")
    assert [text for _, text in read(own)] == ["one?", "two?", "c#", "c", "?", "!"]
    assert caplog.messages == [f"{own}: 6 queries; 5 more repeat one of them or of the data's, and are left out"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "own.txt",
            b"one?\n\xe2\x80\x8b\n",
            "own.txt, line 2, query: '\\u200b' is empty; give it a text or remove the row",
        ),
        (
            "own.txt",
            b"\xff\none?\n\xc2\x85\n",
            "own.txt, line 1, byte 1: 0xff is not UTF-8 (invalid start byte); convert the file to UTF-8 (1 more: line ",
        ),
        ("own.txt", b"one?\n\xff\n", "own.txt, line 2, byte 1: 0xff is not UTF-8"),
        ("own.parquet", b"PAR", "own.parquet: not a readable Parquet file"),
    ],
)
def test_mistakes(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as caught:
        read(tmp_path / name)
    assert str(caught.value).removeprefix(f"{tmp_path}/").startswith(message) and "\n" not in str(caught.value)


def test_a_table_without_texts(tmp_path: Path) -> None:
    own = tmp_path / "own.parquet"
    pl.DataFrame({"query": ["one?"]}).write_parquet(own)
    with pytest.raises(UserError, match="0 columns text in 'query': there must be text"):
        read(own)


def test_the_users_file(tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    with pytest.raises(UserError, match=r"data\.unlabelled is '.*own\.txt': no such file; correct it"):
        own_file(str(own))
    own.write_text("one?\n")
    assert own_file(str(own)) == own
    assert own_file(None) is None
