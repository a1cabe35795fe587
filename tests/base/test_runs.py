import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.runs import read_run, write_ranking


def small_run(path: Path, *qids: str) -> None:
    ranking = np.array([[3, 0, 1], [2, -1, -1]]), np.array([[0.1, 0.1, -2.5], [1e-9, 0, 0]], dtype=np.float32)
    tables = path.with_name("queries.parquet"), path.with_name("passages.parquet")
    pl.DataFrame({"qid": qids or ["q1", "q2"]}).write_parquet(tables[0])
    pl.DataFrame({"pid": ["p0", "p1", "p2", "ü3"]}).write_parquet(tables[1], row_group_size=2)
    write_ranking(path, ranking, *tables, "mine")


def test_lines_are_trec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnn_encoder.base.runs.QUERIES_AT_A_TIME", 1)
    small_run(tmp_path / "a.trec.gz")
    assert gzip.decompress((tmp_path / "a.trec.gz").read_bytes()).decode() == (
        "q1 Q0 ü3 1 0.1 mine\nq1 Q0 p0 2 0.1 mine\nq1 Q0 p1 3 -2.5 mine\nq2 Q0 p2 1 1e-9 mine\n"
    )
    small_run(tmp_path / "other_name.trec.gz")
    found = (tmp_path / "a.trec.gz").read_bytes()
    assert found == (tmp_path / "other_name.trec.gz").read_bytes() and found[4:8] == bytes(4), "no time stamp"
    frame = read_run(tmp_path / "a.trec.gz")
    assert frame.schema == {"qid": pl.String, "pid": pl.String, "rank": pl.Int32, "score": pl.Float64}
    assert frame.rows() == [("q1", "ü3", 1, 0.1), ("q1", "p0", 2, 0.1), ("q1", "p1", 3, -2.5), ("q2", "p2", 1, 1e-9)]


def test_reads_other_tools_white_space(tmp_path: Path) -> None:
    path = tmp_path / "other.trec"
    path.write_text('q1\tQ0\tp"1  1 12 tag\r\n\nq2   Q0 p2 1 -1e3 tag')
    assert read_run(path).rows() == [("q1", 'p"1', 1, 12.0), ("q2", "p2", 1, -1000.0)]
    path.write_bytes(gzip.compress(path.read_bytes()))  # under a name that does not say so
    assert read_run(path).rows() == [("q1", 'p"1', 1, 12.0), ("q2", "p2", 1, -1000.0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q Q0 p 1 0.5 t\nq Q0 p 0.5 t\n", "line 2 is 'q Q0 p 0.5 t'; a line is `qid Q0 pid rank score tag` with"),
        ("q Q0 p 1 0.5 t more\n", "line 1 is"),
        ("q Q0 p 0 0.5 t\n", "line 1 is"),
        ("q Q0 p 1.5 0.5 t\n", "line 1 is"),
        ("q Q0 p 1 high t\n", "line 1 is"),
        ("q Q0 p 1 3 t\n\nq Q0 r 2 nan t\n", "line 3 is"),
        ("q Q0 p 1 3 t\nq Q0 p 2 2 t\n", "query 'q' has pid 'p' twice"),
        ("q Q0 p\xa01 1 3 t\n", r"passage 'p\\xa01': an id has white space"),
        ("q Q0 p 1 3 t\nq Q0 r 1 2 t\n", "query 'q' has rank 1 twice"),
    ],
)
def test_malformed_lines_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.trec"
    path.write_text(text)
    with pytest.raises(UserError, match=message) as error:
        read_run(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("start", ["\ufeff", "\ufeff\ufeff", "\n\ufeff", "\ufeff\r\n"])
def test_a_byte_order_mark_is_no_part_of_an_id(tmp_path: Path, start: str) -> None:
    path = tmp_path / "run.trec"
    path.write_text(f"{start}q Q0 p 1 3 t\n\ufeffr Q0 p\ufeff 1 3 t\n")
    assert read_run(path).select("qid", "pid").rows() == [("q", "p"), ("r", "p\ufeff")]


@pytest.mark.parametrize("keep", [5, 30])
def test_what_is_no_text(tmp_path: Path, keep: int) -> None:
    small_run(tmp_path / "a.gz")
    (tmp_path / "b.gz").write_bytes((tmp_path / "a.gz").read_bytes()[:keep])
    (tmp_path / "bad.trec").write_bytes(b"q Q0 p 1 3 t\nq Q0 \xff 2 2 t\n")
    for name, told in (("b.gz", "cut off or damaged"), ("bad.trec", "line 2: not UTF-8")):
        with pytest.raises(UserError, match=told):
            read_run(tmp_path / name)
    with pytest.raises(UserError, match="'a b'"):
        small_run(tmp_path / "a.gz", "q1", "a b")
