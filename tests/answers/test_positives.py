"""The positive of a query that has only answers: BM25's first passage that holds one."""

from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gnn_encoder.answers import positives as module
from gnn_encoder.answers.positives import best_answered
from gnn_encoder.core.errors import UserError
from gnn_encoder.core.records import PASSAGES, QRELS, QUERIES

TEXTS = ["nothing", "a hot oven", "the oven", "a pan", "oven and pan"]


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    queries, passages = tmp_path / "dev.parquet", tmp_path / "passages.parquet"
    answers = [["oven"], ["pan", "salt"], ["gas"], []]
    pq.write_table(pa.table([["q0", "q1", "q2", "q3"], ["?"] * 4, answers], schema=QUERIES), queries)
    pids = [f"p{i}" for i in range(len(TEXTS))]
    pq.write_table(pa.table([pids, [""] * len(TEXTS), TEXTS], schema=PASSAGES), passages)
    return queries, passages


def bm25(rankings: dict[str, list[str]]) -> pl.DataFrame:
    rows = [(qid, pid, rank) for qid, pids in rankings.items() for rank, pid in enumerate(pids, 1)]
    return pl.DataFrame(rows, schema={"qid": pl.String, "pid": pl.String, "rank": pl.Int32}, orient="row")


def test_the_first_one_in_the_run(tables: tuple[Path, Path]) -> None:
    run = bm25({"q1": ["p1", "p4", "p3"], "q0": ["p0", "p2", "p1"], "q2": ["p0", "p1"], "q3": ["p1"]})
    table = best_answered(run, *tables, "string")
    assert table.rows() == [("q0", "p2", 1), ("q1", "p4", 1)]
    assert table.to_arrow().cast(QRELS).num_rows == 2


def test_passages_further_down_are_not_taken(tables: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEPTH", 1)
    run = bm25({"q0": ["p0", "p2"], "q1": ["p3"]})
    assert best_answered(run, *tables, "string").rows() == [("q1", "p3", 1)]


def test_no_query_has_one(tables: tuple[Path, Path]) -> None:
    with pytest.raises(UserError, match="dev.parquet: BM25's first 100 passages hold an answer of no query; "):
        best_answered(bm25({"q0": ["p0"], "q2": ["p1"]}), *tables, "string")
