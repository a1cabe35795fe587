"""Stage prepare finds passages with the text of another, and queries that are passages."""

import json
from pathlib import Path

import polars as pl
import pytest

from gnn_encoder.base.judgements import find_identical
from gnn_encoder.base.tables import PASSAGES as PASSAGES_TABLE

from ..texts import write
from .conftest import Prepared, Write, rows
from .sources import lines

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
SOURCE = {
    "corpus.jsonl": lines(*({"_id": pid, "title": title, "text": text} for pid, title, text in PASSAGES)),
    "queries.jsonl": lines(*({"_id": qid, "text": text} for qid, text in QUERIES.items())),
    "qrels/train.tsv": "q0\tp1\t1\nq1\tp5\t1\na1\tp7\t1\n7\t7\t0\n7\tp0\t1\n",
    "qrels/dev.tsv": "q4\t7\t1\nq5\tp1\t1\n",
    "qrels/test.tsv": "q6\tp3\t1\n",
}


def test_copies_and_queries_that_are_passages(folder: Write, prepared: Prepared) -> None:
    found = prepared(source="beir", path=str(folder(SOURCE))) / "identical"
    assert rows(found / "copies.parquet") == [(2, 0), (5, 1)]
    assert rows(found / "train.parquet") == [(0, 0), (0, 2), (0, 3), (2, 4)]
    assert rows(found / "dev.parquet") == [(0, 7), (1, 0), (1, 2)]
    assert rows(found / "test.parquet") == rows(found / "unlabelled.parquet") == []
    statistics = json.loads((found.parent / "statistics.json").read_text())
    assert statistics["passages"] == {"passages": 8, "copies_of_another": 2}
    assert statistics["train"]["queries_that_are_passages"] == 2
    assert "queries_that_are_passages" not in statistics["test"]


ROWS = [
    ("a", "Ash", "It bends well.  It is used."),
    ("b", "Ash ", "It bends well.\n\nIt is used."),  # a copy
    ("c", "ASH", "It bends well. It is used."),  # other letters are no copy
    ("e", "", "It bends well. It is used"),
    ("f", "", "Caf\u00e9"),
    ("g", " ", "Cafe\u0301 "),  # a copy
    ("h", "x", "CAFÉ"),
    ("d#0", "", "It is fine."),
]


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
    monkeypatch.setattr("gnn_encoder.base.tables.ROW_GROUP", 3)
    write(tmp_path / "passages.parquet", PASSAGES_TABLE, *zip(*ROWS, strict=True))
    found, mine = find_identical(tmp_path / "passages.parquet", pl.DataFrame({"qid": [qid], "text": [asked]}))
    assert sorted(mine["passage"]) == own
    assert (found.copies.tolist(), found.firsts.tolist()) == ([1, 5], [0, 4])
