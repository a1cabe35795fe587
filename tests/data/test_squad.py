"""SQuAD's JSON -> tables, from a folder and from one file, and the line for each bad row."""

import copy
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gnn_encoder.data.rows import split_of, stable_hash

Prepared = Callable[..., Path]
Rows = Callable[[Path], list[tuple[object, ...]]]

ASH = "Ash has black buds. Oars are made of it."
YEW = "Yew is poisonous."


def question(qid: str, text: str, answer: str | None, start: int = 0, **more: Any) -> dict[str, Any]:
    answers = [] if answer is None else [{"text": answer, "answer_start": start}]
    return {"id": qid, "question": text, "answers": answers} | more


TRAIN = {
    "version": "v2.0",
    "data": [
        {
            "title": "Ash_(tree)",
            "paragraphs": [
                {
                    "context": ASH,
                    "qas": [
                        question("q1", "What is black?", "black buds", 8),
                        question("q2", "What is red?", None, is_impossible=True),
                        question("q3", "What is made of ash?", "Oars", 20),
                    ],
                },
                {"context": YEW, "qas": [question("q4", "What is yew?", None)]},
            ],
        }
    ],
}
TEST = {
    "data": [
        {"title": "Oars", "paragraphs": [{"context": ASH, "qas": [question("q5", "Of what are oars?", "Ash", 0)]}]},
        {"paragraphs": [{"context": YEW, "qas": [question("q6", "Is yew safe?", "poisonous", 7)]}]},
    ]
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "squad"
    path.mkdir()
    (path / "train.json").write_text(json.dumps(TRAIN))
    (path / "test.json").write_text(json.dumps(TEST))
    return path


def test_tables(folder: Path, prepared: Prepared, rows: Rows) -> None:
    target = prepared(source="squad", path=str(folder), dev_fraction=0.5)
    ash, yew = stable_hash(ASH), stable_hash(YEW)
    assert rows(target / "passages.parquet") == [(ash, "Ash (tree)", ASH), (yew, "Ash (tree)", YEW)]
    train, dev = rows(target / "queries" / "train.parquet"), rows(target / "queries" / "dev.parquet")
    assert sorted(train + dev) == [("q1", "What is black?", []), ("q3", "What is made of ash?", [])]
    assert rows(target / "queries" / "test.parquet") == [("q5", "Of what are oars?", []), ("q6", "Is yew safe?", [])]
    assert rows(target / "qrels" / "test.parquet") == [("q5", ash, 1), ("q6", yew, 1)]
    assert rows(target / "counts.parquet") == []
    statistics = json.loads((target / "statistics.json").read_text())
    assert statistics["left_out_or_replaced"] == {"questions_without_an_answer": 2}


def test_dev_and_gzip(folder: Path, prepared: Prepared, rows: Rows, pack: Callable[[Path], None]) -> None:
    (folder / "dev.json").write_text("\ufeff" + json.dumps(TEST).replace('"q5"', '"d5"').replace('"q6"', '"d6"'))
    pack(folder)
    target = prepared(source="squad", path=str(folder))
    assert [row[0] for row in rows(target / "queries" / "dev.parquet")] == ["d5", "d6"]
    assert [row[0] for row in rows(target / "queries" / "train.parquet")] == ["q1", "q3"]
    assert len(rows(target / "passages.parquet")) == 2


@pytest.mark.parametrize("packed", [False, True])
def test_one_file_is_divided_by_hash(tmp_path: Path, prepared: Prepared, rows: Rows, packed: bool) -> None:
    questions = [question(f"q{i}", "Yew?", "Yew") for i in range(60)]
    many = {"data": [{"paragraphs": [{"context": YEW, "qas": questions}, {"context": ASH, "qas": []}]}]}
    path = tmp_path / ("xquad.en.json.gz" if packed else "xquad.en.json")
    path.write_bytes(gzip.compress(json.dumps(many).encode()) if packed else json.dumps(many).encode())
    target = prepared(source="squad", path=str(path), dev_fraction=0.25, test_fraction=0.3)
    found = {s: [str(row[0]) for row in rows(target / "queries" / f"{s}.parquet")] for s in ("train", "dev", "test")}
    assert sorted(sum(found.values(), [])) == sorted(f"q{i}" for i in range(60))
    assert all(split_of(stable_hash(q), dev=0.25, test=0.3) == s for s, qids in found.items() for q in qids)
    assert all(found.values())
    assert rows(target / "passages.parquet") == [(stable_hash(text), "", text) for text in (YEW, ASH)]


def test_a_question_is_of_the_passage_that_holds_its_answer(folder: Path, prepared: Prepared, rows: Rows) -> None:
    target = prepared(source="squad", path=str(folder), passages={"words": 4, "overlap": 0})
    ash, yew = stable_hash(ASH), stable_hash(YEW)
    assert rows(target / "passages.parquet") == [
        (f"{ash}#0", "Ash (tree)", "Ash has black buds."),
        (f"{ash}#1", "Ash (tree)", "Oars are made of"),
        (f"{ash}#2", "Ash (tree)", "it."),
        (f"{yew}#0", "Ash (tree)", YEW),
    ]
    # By its words q5 would be of passage 1, where oars are.
    assert rows(target / "qrels" / "test.parquet") == [("q5", f"{ash}#0", 1), ("q6", f"{yew}#0", 1)]
    judged = rows(target / "qrels" / "train.parquet") + rows(target / "qrels" / "dev.parquet")
    assert sorted(judged) == [("q1", f"{ash}#0", 1), ("q3", f"{ash}#1", 1)]


def spoilt(*path: Any, value: Any) -> dict[str, Any]:
    made: Any = copy.deepcopy(TRAIN)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return dict(made)


PARAGRAPH = ("data", 0, "paragraphs", 0)
QUESTION = (*PARAGRAPH, "qas", 2)
AT = "train.json, article 0, paragraph 0"
BAD = {
    "an array": ([TRAIN], 'train.json: no items; it must be JSON of the form {"data": [articles]}'),
    "no article": (spoilt("data", 0, value=5), "train.json, item 0: 5 is no JSON object; write one a article"),
    "title": (spoilt("data", 0, "title", value=5), "train.json, item 0, title: 5 is not a string"),
    "paragraphs": (spoilt("data", 0, "paragraphs", value=None), "item 0, paragraphs: None is no list of objects; give"),
    "id": (spoilt(*QUESTION, "id", value=None), f"{AT}, question 2, id: missing; give every row an id"),
    "answers": (spoilt(*QUESTION, "answers", value="Oars"), f"{AT}, question 2, answers: 'Oars' is no list of objects"),
    "answer": (spoilt(*QUESTION, "answers", value=[{}]), f"{AT}, question 2, answers, text: missing; add it"),
    "start": (
        spoilt(*QUESTION, "answers", 0, "answer_start", value=19),
        f"{AT}, question 2, answer_start: 'Oars' does not stand at character 19 of the context; correct it",
    ),
    "no start": (
        spoilt(*QUESTION, "answers", value=[{"text": "Oars"}]),
        "question 2, answer_start: 'Oars' does not stand at character None of the context; correct it",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_rows(name: str, folder: Path, refused: Callable[..., None]) -> None:
    content, message = BAD[name]
    (folder / "train.json").write_text(json.dumps(content))
    refused(message, source="squad", path=str(folder))


def test_bad_files(folder: Path, refused: Callable[..., None]) -> None:
    (folder / "train.json").write_text(json.dumps(TRAIN)[:-9])
    refused("train.json: not JSON (", source="squad", path=str(folder))
    packed = gzip.compress(json.dumps(TRAIN).encode())
    (folder / "train.json").unlink()
    (folder / "train.json.gz").write_bytes(packed[:-9])
    refused("train.json.gz: gzip data cut off or damaged after item", source="squad", path=str(folder))
    (folder / "test.json").unlink()
    refused("test.json: no such file, nor test.json.gz; add it, or correct data.path", source="squad", path=str(folder))
    refused("is not a folder; give the one that holds train.json and test.json, or one file", source="squad", path="x")
