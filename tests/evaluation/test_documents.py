"""Runs and judgements by document, against values worked out by hand."""

from pathlib import Path

import polars as pl
import pytest

from gnn_encoder.base.tables import PASSAGES, QRELS, QUERIES
from gnn_encoder.evaluation.judge import Judgements, best_passages, judged_documents
from gnn_encoder.pipeline import project

from ..texts import write

RUN = pl.DataFrame(
    [
        ("q1", "a#1", 1, 9.0),
        ("q1", "a#0", 2, 8.0),
        ("q1", "b#2", 3, 7.0),
        ("q1", "a#12", 4, 6.0),
        ("q1", "b#1#0", 5, 5.0),
        ("q2", "b#0", 2, 1.0),
        ("q2", "a#1", 1, 2.0),
    ],
    schema={"qid": pl.String, "pid": pl.String, "rank": pl.Int32, "score": pl.Float64},
    orient="row",
)
JUDGED = [("q1", "b#0", 1), ("q1", "b#1#0", 2), ("q2", "b#3", 1), ("q2", "b#1", 0)]


def test_best_passages() -> None:
    found = best_passages(RUN).sort("qid", "rank")
    assert found.select("qid", "pid", "rank", "score").rows() == [
        ("q1", "a#1", 1, 9.0),
        ("q1", "b#2", 2, 7.0),
        ("q1", "b#1#0", 3, 5.0),  # the document b#1, whose own id has the sign
        ("q2", "a#1", 1, 2.0),
        ("q2", "b#0", 2, 1.0),
    ]
    assert found.schema == RUN.schema


def test_judged_documents() -> None:
    qrels = pl.DataFrame(JUDGED, schema=["qid", "pid", "grade"], orient="row")
    assert judged_documents(qrels).rows() == [("q1", "b", 1), ("q1", "b#1", 2), ("q2", "b", 1)]


def values(by: str, names: list[str]) -> dict[tuple[str, str], float]:
    tables = dict(zip(("queries", "qrels", "passages"), project.tables("test"), strict=True))
    table = Judgements(**tables, by_document=by == "document").measure(RUN, names)
    return {(qid, name): value for qid, name, value in table.rows()}


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(project.qrels("test"), QRELS, *zip(*JUDGED, strict=True))
    write(project.queries("test"), QUERIES, ["q1", "q2"], ["?", "?"], [[], []])
    return tmp_path


def test_a_run_by_passage_and_by_document(prepared: Path) -> None:
    # By passage q1 finds b#1#0 at rank 5 and q2 nothing; by document q1 finds b at rank 2 and b#1 at 3, q2 b at 2.
    assert values("passage", ["RR@10", "R@5"]) == {
        ("q1", "RR@10"): 0.2, ("q1", "R@5"): 0.5, ("q2", "RR@10"): 0.0, ("q2", "R@5"): 0.0
    }  # fmt: skip
    assert values("document", ["RR@10", "R@2"]) == {
        ("q1", "RR@10"): 0.5, ("q1", "R@2"): 0.5, ("q2", "RR@10"): 0.5, ("q2", "R@2"): 1.0
    }  # fmt: skip


def test_answers_judge_a_documents_best_passage(prepared: Path) -> None:
    write(project.queries("test"), QUERIES, ["q1", "q2"], ["?", "?"], [["yes"], ["yes"]])
    texts = {"a#1": "no", "a#0": "yes", "b#2": "yes", "a#12": "no", "b#1#0": "no", "b#0": "no"}
    write(project.PASSAGES, PASSAGES, texts, [""] * len(texts), texts.values())
    assert values("passage", ["RR@2"]) == {("q1", "RR@2"): 0.5, ("q2", "RR@2"): 0.0}  # a#0
    assert values("document", ["RR@2"]) == {("q1", "RR@2"): 0.5, ("q2", "RR@2"): 0.0}  # b#2, which was third
    assert values("document", ["Success@1"]) == {("q1", "Success@1"): 0.0, ("q2", "Success@1"): 0.0}
