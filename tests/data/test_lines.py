"""Strict lines: every kind of damage is named with its line."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from gnn_encoder.base.errors import UserError, shorten
from gnn_encoder.data.lines import as_it_is, find, read_columns, read_json_lines, read_judged, read_lines, require
from gnn_encoder.data.rows import MANY, check_id


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_lines_are_numbered_and_stripped_of_their_ends(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "\ufeff\ufeffone\r\n\ufeff \t\r\n two \n\ufeffd\u2028r\ufeffei".encode())
    assert list(read_lines(path, as_it_is)) == [
        ((path, "line 1"), "one"),
        ((path, "line 3"), " two "),
        ((path, "line 4"), "d\u2028r\ufeffei"),
    ]


@pytest.mark.parametrize("name", ["a.tsv.gz", "a.tsv"])
def test_gzip_reads_like_plain(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, gzip.compress(b"one\ntwo\n"))
    assert [line for _, line in read_lines(path, as_it_is)] == ["one", "two"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"one\ncaf\xe9 au lait\n", "a.jsonl, line 2, byte 4: 0xe9 is not UTF-8 (invalid continuation byte); convert"),
        (
            "\ufeffone\ntwo\n".encode("utf-16-le"),
            "a.jsonl: UTF-16, as its first two bytes say; convert the file to UTF-8",
        ),
        (
            "\ufeffone\ntwo\n".encode("utf-16-be"),
            "a.jsonl: UTF-16, as its first two bytes say; convert the file to UTF-8",
        ),
    ],
)
def test_bad_lines(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(UserError) as error:
        list(read_lines(write(tmp_path / "a.jsonl", content), as_it_is))
    assert str(error.value).startswith(f"{tmp_path}/{message}")


def test_truncated_gzip_names_the_last_whole_line(tmp_path: Path) -> None:
    # Stored, not deflated: the first lines are readable before the data ends.
    data = gzip.compress(b"one\ntwo\nthree and more\n", compresslevel=0)
    path = write(tmp_path / "a.jsonl.gz", data[:-12])
    with pytest.raises(UserError, match=r"a\.jsonl\.gz: gzip data cut off or damaged after line \d"):
        list(read_lines(path, as_it_is))


@pytest.mark.parametrize(
    "damage",
    # Named by hand: gzip's header holds the time, and both workers must find the same names.
    [b"not gzip at all", gzip.compress(b"x" * 99)[:-8] + b"\0" * 8],
    ids=["no gzip", "wrong checksum"],
)
def test_damaged_gzip(tmp_path: Path, damage: bytes) -> None:
    with pytest.raises(UserError, match="gzip data cut off or damaged"):
        list(read_lines(write(tmp_path / "a.gz", damage), as_it_is))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"_id": "1"', "line 2: '{\"_id\": \"1\"' is not JSON (Expecting ',' delimiter, column 12)"),
        (b'["1", "a"]', 'line 2: \'["1", "a"]\' is not a JSON object; write one object a line'),
        (b"[" * 100_000, "is not JSON (maximum recursion depth exceeded"),
        (b'{"n": ' + b"9" * 5000 + b"}", "is not JSON (Exceeds the limit"),
    ],
)
def test_bad_json(tmp_path: Path, line: bytes, message: str) -> None:
    path = write(tmp_path / "a.jsonl", b'{"_id": "0"}\n' + line + b"\n")
    with pytest.raises(UserError) as error:
        list(read_json_lines(path, as_it_is))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_the_first_of_several_names_is_found(tmp_path: Path) -> None:
    write(tmp_path / "b.tsv", b"")
    packed = write(tmp_path / "a.tsv.gz", b"")
    assert find(tmp_path, "a.tsv", "b.tsv") == require(tmp_path, "a.tsv", "b.tsv") == packed
    with pytest.raises(UserError, match=r"c\.tsv: no such file, nor c\.tsv\.gz, d\.tsv; add it, or correct data\.path"):
        require(tmp_path, "c.tsv", "d.tsv")


def test_find_prefers_neither_of_two(tmp_path: Path) -> None:
    assert find(tmp_path, "a.tsv") is None
    packed = write(tmp_path / "a.tsv.gz", b"")
    assert find(tmp_path, "a.tsv") == packed
    write(tmp_path / "a.tsv", b"")
    with pytest.raises(UserError, match=r"a\.tsv\.gz is there as well; keep one"):
        find(tmp_path, "a.tsv")


def told(rows: Iterator[object]) -> str:
    with pytest.raises(UserError) as error:
        list(rows)
    assert len(str(error.value).splitlines()) == 1
    return str(error.value)


def test_all_wrong_rows_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", b'{"_id": "a"}\n{"_id": ""}\ncaf\xe9\n{"_id": "b"}\n[1]\n{"_id": "c d"}\n')
    found = told(read_json_lines(path, lambda place, row: check_id(place, "_id", row.get("_id"))))
    assert found == (
        f"{path}, line 2, _id: empty; give every row an id of its own (3 more: "
        "line 3, byte 4: 0xe9 is not UTF-8 (unexpected end of data); line 5: '[1]' is not a JSON object; "
        "line 6, _id: 'c d' has white space, a TREC run cannot carry it)"
    )


def test_of_many_wrong_rows_some_are_told_and_a_file_of_them_is_not_read_on(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", b"a\tb\n" + b"c\n" * 7)
    assert told(read_columns(path, None, as_it_is)).endswith(
        "(6 more: line 3: 1 columns, not 2; line 4: 1 columns, not 2; line 5: 1 columns, not 2; "
        "line 6: 1 columns, not 2; ...)"
    )
    path = write(tmp_path / "b.tsv", b"q 0 p 5.\n" + b"q 0 p x\n" * (MANY + 5))
    assert f"({MANY - 1} more or above: line 3, grade: 'x' is not an integer; " in told(read_judged(path))


@pytest.mark.parametrize("header", ["query_id doc_id relevance", "Query-ID\tCorpus-ID\tScore"])
def test_another_header_of_qrels(tmp_path: Path, header: str) -> None:
    path = write(tmp_path / "a.tsv", f"{header}\nq p 1\n".encode())
    cure = "looks like a header; write `query-id corpus-id score`, or remove the line"
    assert told(read_judged(path)) == f"{path}, line 1: {shorten(header)} {cure}"


@pytest.mark.parametrize("line", ["#", "\u2028"])
def test_a_wrong_first_line_of_qrels_makes_no_other_wrong(line: str, tmp_path: Path) -> None:
    (path := tmp_path / "qrels.tsv").write_text(f"{line}\nquery-id\tcorpus-id\tscore\nq1\tp1\t1\nq2\tp2\t0\n")
    with pytest.raises(UserError, match=r"line 1: [01] fields; .*the same in the whole file$"):
        list(read_judged(path))
