"""Stage prepare finds passages with the text of another, and queries that are passages."""

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from gnn_encoder.base.judgements import find_identical
from gnn_encoder.base.tables import PASSAGES as PASSAGES_TABLE

from ..texts import write

PASSAGES = [
    ("p0", "Oak", "An oak is a tree."),
    ("p1", "", "A yew is a tree."),
    ("p2", "Oak", "An oak is a tree."),
    ("p3", "Elm", "An oak is a tree."),  # another title: no copy
    ("a1", "Ash", "Ash wood bends well. It is used for oars."),
    ("p5", "", "A yew\u200b is a t\u00adree."),
    ("7", "", "Elms are rare."),
    ("p7", "", "What is an elm?"),
]
QUERIES = {
    "q0": "An oak is a tree.",  # the text of p0, p2 and p3
    "q1": "A yew is a tree.",  # that of p1 and p5, of which p5 is relevant
    "a1": "Ash wood bends well.",  # the id of a1, and the beginning of its text
    "7": "Is oak wood heavy?",  # an id that says nothing
    "q4": " What is an elm? ",
    "q5": "Oak An oak is a tree.",  # that of p0 and p2 with their title
    "q6": "Elm",  # a title alone is not the passage
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    corpus = [json.dumps({"_id": pid, "title": title, "text": text}) for pid, title, text in PASSAGES]
    queries = [json.dumps({"_id": qid, "text": text}) for qid, text in QUERIES.items()]
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text("\n".join(corpus))
    (tmp_path / "queries.jsonl").write_text("\n".join(queries))
    judged = {"train": ["q0\tp1\t1", "q1\tp5\t1", "a1\tp7\t1", "7\t7\t0", "7\tp0\t1"], "dev": ["q4\t7\t1", "q5\tp1\t1"]}
    judged["test"] = ["q6\tp3\t1"]
    for split, lines in judged.items():
        (tmp_path / "qrels" / f"{split}.tsv").write_text("\n".join(lines))
    return tmp_path


def test_copies_and_queries_that_are_passages(folder: Path, prepared: Callable[..., Path], rows: Callable) -> None:  # type: ignore[type-arg]
    found = prepared(source="beir", path=str(folder)) / "identical"
    assert rows(found / "copies.parquet") == [(2, 0), (5, 1)]
    assert rows(found / "train.parquet") == [(0, 0), (0, 2), (0, 3), (2, 4)]
    assert rows(found / "dev.parquet") == [(0, 7), (1, 0), (1, 2)]
    assert rows(found / "test.parquet") == rows(found / "unlabelled.parquet") == []
    statistics = json.loads((found.parent / "statistics.json").read_text())
    assert statistics["passages"] == {"passages": 8, "copies_of_another": 2}
    assert statistics["train"]["queries_that_are_passages"] == 2
    assert "queries_that_are_passages" not in statistics["test"]


@pytest.mark.parametrize(
    ("qid", "asked", "own"),
    [
        ("q", "It bends well.\u00a0 it is used.", [0, 1, 2]),
        ("q", "ash it BENDS well. It is used.", [0, 1, 2]),  # with its title
        ("q", "cafe\u0301", [4, 5, 6]),
        ("a", "\tIt bends WELL.\n", [0]),  # the beginning of the passage with its id
        ("d", "Is it ﬁne?  It is Fine. Is it?", [7]),  # holds a part of the document with its id
        ("q", "Itbendswell. Itisused.", []),
    ],
)
def test_white_space_and_how_characters_are_stored_make_no_other_text(
    qid: str, asked: str, own: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        ("a", "Ash", "It bends well.  It is used."),
        ("b", "Ash ", "It bends well.\n\nIt is used."),  # a copy
        ("c", "ASH", "It bends well. It is used."),  # other letters are no copy
        ("e", "", "It bends well. It is used"),
        ("f", "", "Caf\u00e9"),
        ("g", " ", "Cafe\u0301 "),  # a copy
        ("h", "x", "CAFÉ"),
        ("d#0", "", "It is fine."),
    ]
    monkeypatch.setattr("gnn_encoder.base.tables.ROW_GROUP", 3)
    write(tmp_path / "passages.parquet", PASSAGES_TABLE, *zip(*rows, strict=True))
    found, mine = find_identical(tmp_path / "passages.parquet", pl.DataFrame({"qid": [qid], "text": [asked]}))
    assert sorted(mine["passage"]) == own
    assert (found.copies.tolist(), found.firsts.tolist()) == ([1, 5], [0, 4])
