"""Pairs of rows that hold an answer: in any order, over row groups, by one process and by several."""

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gnn_encoder.answers import pairs as module
from gnn_encoder.answers.matching import finder, prepared
from gnn_encoder.answers.pairs import answered, best_answered, judged_by_answers
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.tables import PASSAGES, QRELS, QUERIES

from ..texts import write

WORDS = ["oven", "pan", "salt", "yeast", "flour", "steam", "dough"]


def write_queries(path: Path, answers: list[list[str] | None]) -> Path:
    return write(path, QUERIES, (f"q{i}" for i in range(len(answers))), ["why?"] * len(answers), answers)


def write_passages(path: Path, texts: list[str], row_group: int = 3) -> Path:
    rows = {"pid": [f"p{i}" for i in range(len(texts))], "title": ["oven"] * len(texts), "text": texts}
    pq.write_table(pa.table(rows, schema=PASSAGES), path, row_group_size=row_group)
    return path


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    return write_queries(tmp_path / "test.parquet", [["Oven"], ["pan", "salt"], [], None, [""], ["hot oven"]])


@pytest.fixture
def passages(tmp_path: Path) -> Path:
    texts = ["An oven.", "A pan", "Salt, a pan", "nothing", "a hot oven", "a hot gas oven", "", "salted", "OVEN SALT"]
    return write_passages(tmp_path / "passages.parquet", [*texts, "the last"])


def every_pair(n_queries: int, n_passages: int) -> pl.DataFrame:
    query, passage = np.divmod(np.random.default_rng(0).permutation(n_queries * n_passages), n_passages)
    columns = {"query": query.astype(np.int32), "passage": passage.astype(np.int32)}
    return pl.DataFrame(columns).with_row_index("place")


def test_by_hand(queries: Path, passages: Path) -> None:
    pairs = every_pair(6, 10)
    found = answered(pairs, queries, passages, "string")
    expected = {(0, 0), (0, 4), (0, 5), (0, 8), (1, 1), (1, 2), (1, 8), (5, 4)}
    assert set(found.select("query", "passage").rows()) == expected, "titles do not count"
    assert found["place"].is_sorted() and found.columns == ["place", "query", "passage"]


def test_expressions(tmp_path: Path, passages: Path) -> None:
    queries = write_queries(tmp_path / "dev.parquet", [["ov.n$"], [r"^salt\w"]])
    found = answered(every_pair(2, 10), queries, passages, "regex")
    assert set(found.select("query", "passage").rows()) == {(0, 4), (0, 5), (1, 7)}


def test_no_pairs(queries: Path, passages: Path) -> None:
    assert answered(every_pair(6, 10).clear(), queries, passages, "string").is_empty()


def test_several_processes_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(1)
    texts = [" ".join(generator.choice(WORDS, 3)) for _ in range(40)]
    answers = [[" ".join(generator.choice(WORDS, 2))] for _ in range(30)]
    queries = write_queries(tmp_path / "test.parquet", answers)
    passages = write_passages(tmp_path / "passages.parquet", texts, row_group=7)
    alone = answered(every_pair(30, 40), queries, passages, "string")
    finders = [finder(one, "string") for one in answers]
    expected = sum(found(prepared(text, "string")) for found in finders for text in texts)
    assert len(alone) == expected > 10
    monkeypatch.setattr(module, "PAIRS_A_PROCESS", 600)
    monkeypatch.setattr(module, "cores", lambda: 2)
    monkeypatch.setattr(module.Worker, "match", None)  # of this process: the others import the module anew
    assert answered(every_pair(30, 40), queries, passages, "string").equals(alone)


def test_what_is_no_expression_is_named(tmp_path: Path, passages: Path) -> None:
    queries = write_queries(tmp_path / "dev.parquet", [["fine"], ["("]])
    with pytest.raises(UserError, match=r"dev.parquet, query 'q1', answers: '\(' is no regular expression"):
        answered(every_pair(1, 10), queries, passages, "regex")


@pytest.mark.parametrize(
    ("answers", "expected"),
    [([[], []], False), ([[], ["x"]], True), ([None, None], False), ([None, [""]], True), ([], False)],
)
def test_judged_by_answers(tmp_path: Path, answers: list[list[str] | None], expected: bool) -> None:
    assert judged_by_answers(write_queries(tmp_path / "test.parquet", answers)) is expected


# --- the positive of a query that has only answers: BM25's first passage that holds one ------------------------------


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    answers: list[list[str] | None] = [["oven"], ["pan", "salt"], ["gas"], []]
    texts = ["nothing", "a hot oven", "the oven", "a pan", "oven and pan"]
    return write_queries(tmp_path / "dev.parquet", answers), write_passages(tmp_path / "passages.parquet", texts)


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
