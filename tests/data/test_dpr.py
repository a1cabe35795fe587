"""DPR's files -> tables: quoted passages, positives of a streamed array, splits judged by answers; and bad files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gnn_encoder.data.dpr import open_dpr

Sample, Prepared, Rows = Callable[[str], Path], Callable[..., Path], Callable[[Path], list[Any]]


@pytest.fixture
def folder(sample: Sample) -> Path:
    return sample("dpr")


def test_passages_are_read_with_their_quotes(folder: Path, prepared: Prepared, rows: Rows) -> None:
    passages = rows(prepared(source="dpr", path=str(folder), name="nq") / "passages.parquet")
    first = 'The "Flying Scotsman" first ran without a stop from London to Edinburgh in 1928.'
    assert len(passages) == 6
    assert passages[0] == ("1", "Flying Scotsman", first)
    assert passages[5] == ("6", "Orient Express", '"Orient Express" is quoted here as the file quotes it.')


def test_train_has_positives_and_no_answers(folder: Path, prepared: Prepared, rows: Rows) -> None:
    target = prepared(source="dpr", path=str(folder), name="nq")
    # Query 2 has no positive; query 1 names passage 2 twice.
    assert rows(target / "queries" / "train.parquet") == [
        ("0", "who built the first railway over the alps", []),
        ("1", "how could the flying scotsman run without a stop", []),
        ("3", "what lifts the car of a funicular", []),
    ]
    assert rows(target / "qrels" / "train.parquet") == [("0", "3", 1), ("1", "2", 1), ("1", "1", 1), ("3", "4", 1)]


def test_dev_and_test_are_judged_by_answers(folder: Path, prepared: Prepared, rows: Rows) -> None:
    target = prepared(source="dpr", path=str(folder), name="nq")
    assert rows(target / "queries" / "dev.parquet") == [
        ("0", "how long does the glacier express take", ["eight hours", "8 hours"]),
        ("1", 'what is the "orient express"', ["a train"]),
    ]
    assert rows(target / "queries" / "test.parquet") == [
        ("0", "when did the semmering railway open", ["1854"]),
        ("1", "how many cars has a funicular", ["two", "2"]),
        ("2", "what is carl's surname", ["von Ghega", '"Ghega"', "Ghega's"]),
    ]
    assert rows(target / "qrels" / "dev.parquet") == rows(target / "qrels" / "test.parquet") == []
    statistics = json.loads((target / "statistics.json").read_text())
    assert statistics["train"] == {"queries": 3, "judgements": 4}
    assert statistics["test"] == {"queries": 3, "answers": 6}


def test_trivia_names_its_passages_otherwise(folder: Path, prepared: Prepared, rows: Rows) -> None:
    target = prepared(source="dpr", path=str(folder), name="trivia")
    assert rows(target / "qrels" / "train.parquet") == [("0", "1", 1), ("1", "3", 1)]
    assert rows(target / "queries" / "test.parquet")[0][2] == ["St. Moritz", "Sankt Moritz"]


def test_numbers_as_passage_ids(folder: Path, prepared: Prepared, rows: Rows) -> None:
    items = [{"question": "what", "positive_ctxs": [{"psg_id": 4}]}, {"question": "why", "positive_ctxs": []}]
    (folder / "biencoder-nq-train.json").write_text(json.dumps(items))
    assert rows(prepared(source="dpr", path=str(folder), name="nq") / "qrels" / "train.parquet") == [("0", "4", 1)]


def test_without_a_dev_file_dev_is_cut_from_train_and_judged_by_its_passages(
    folder: Path, prepared: Prepared, rows: Rows
) -> None:
    (folder / "nq-dev.qa.csv").unlink()
    target = prepared(source="dpr", path=str(folder), name="nq")
    assert len(rows(target / "queries" / "dev.parquet")) == 1
    assert rows(target / "queries" / "dev.parquet")[0][2] == []
    assert len(rows(target / "qrels" / "dev.parquet")) >= 1


def test_folders_of_the_official_download(folder: Path, prepared: Prepared, rows: Rows) -> None:
    flat = prepared(source="dpr", path=str(folder), name="nq")
    expected = [rows(path) for path in sorted(flat.rglob("*.parquet"))]
    moves = {
        "psgs_w100.tsv": "wikipedia_split/psgs_w100.tsv",
        "biencoder-nq-train.json": "retriever/nq-train.json",
        "nq-dev.qa.csv": "retriever/qas/nq-dev.csv",
        "nq-test.qa.csv": "retriever/qas/nq-test.csv",
    }
    (folder / "wikipedia_split").mkdir()
    (folder / "retriever" / "qas").mkdir(parents=True)
    for old, new in moves.items():
        (folder / old).rename(folder / new)
    tree = prepared(source="dpr", path=str(folder), name="nq")
    assert [rows(path) for path in sorted(tree.rglob("*.parquet"))] == expected


def test_the_array_is_read_item_by_item(folder: Path) -> None:
    """The first query comes before the end of the file has been looked at."""
    path = folder / "biencoder-nq-train.json"
    item = json.dumps({"question": "what " * 1000, "positive_ctxs": [{"passage_id": "1"}]})
    path.write_text("[" + f"{item}," * 1000 + "this is no JSON")
    place, judgement = next(open_dpr(folder, "nq").judgements["train"]())
    assert (place.row, judgement.pid) == ("item 0", "1")


TRAIN, TEST = "biencoder-nq-train.json", "nq-test.qa.csv"
BAD = {
    "columns of passages": ("psgs_w100.tsv", "7\ttext\n", "psgs_w100.tsv, line 8: 2 columns, not 3; write id, text, t"),
    "open quote": ("psgs_w100.tsv", '7\t"text\ttitle\n', "psgs_w100.tsv, line 8: 2 columns, not 3; write id, text, ti"),
    "columns of answers": (TEST, "who\n", "nq-test.qa.csv, line 4: 1 columns, not 2; write query, answers with a t"),
    "code as answers": (TEST, "who\t__import__('os')\n", "line 4, answers: \"__import__('os')\" is no Python list of"),
    "no answers": (TEST, "who\t['', ' ']\n", "line 4, answers: \"['', ' ']\" is no Python list of answers; write"),
    "number as answer": (TEST, "who\t[1854]\n", "nq-test.qa.csv, line 4, answers: 1854 is not a string; put it in quo"),
    "trailing text": (TRAIN, "more", "biencoder-nq-train.json, after item 3: not JSON ("),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_rows(name: str, folder: Path, refused: Callable[..., None], append: Callable[..., Any]) -> None:
    file, text, message = BAD[name]
    append(file, text)(folder)
    refused(message, source="dpr", path=str(folder), name="nq")


GOOD = '{"question": "what", "positive_ctxs": [{"passage_id": "1"}]}'
BAD_ARRAYS = {
    "cut off": (f"[{GOOD}, {GOOD[:20]}".encode(), "after item 0: not JSON ("),
    "an object": (GOOD.encode(), "biencoder-nq-train.json: no items; it must be a JSON array of queries"),
    "number": (f"[{GOOD}, 5]".encode(), "item 1: 5 is no JSON object; write one a query"),
    "no query": (b'[{"positive_ctxs": [{"passage_id": "1"}]}]', "item 0, query: missing; add it"),
    "no positives": (b'[{"question": "what"}]', "item 0, positive_ctxs: None is no list of objects; give one, perhaps"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_ARRAYS)
def test_bad_arrays(name: str, folder: Path, refused: Callable[..., None]) -> None:
    content, message = BAD_ARRAYS[name]
    (folder / TRAIN).write_bytes(content)
    refused(message, source="dpr", path=str(folder), name="nq")


def test_missing_files(folder: Path, refused: Callable[..., None]) -> None:
    (folder / TEST).unlink()
    message = "nq-test.qa.csv: no such file, nor nq-test.qa.csv.gz, nq-test.csv, retriever/qas/nq-test.csv"
    refused(message, source="dpr", path=str(folder), name="nq")


def test_no_queries(folder: Path, refused: Callable[..., None]) -> None:
    (folder / TEST).write_text("")
    refused("queries of split test: there are none; add some with answers", source="dpr", path=str(folder), name="nq")


def test_the_set_must_be_named(folder: Path, refused: Callable[..., None]) -> None:
    refused(
        "data.name is null: source dpr needs the set's name, nq or trivia; set data.name",
        source="dpr",
        path=str(folder),
    )


def test_a_passage_may_be_longer_than_csv_allows(folder: Path, prepared: Prepared, rows: Rows) -> None:
    text = "A long railway. " * 20_000
    with (folder / "psgs_w100.tsv").open("a") as file:
        file.write(f'7\t"{text}"\tLong\n')
    assert rows(prepared(source="dpr", path=str(folder), name="nq") / "passages.parquet")[6] == ("7", "Long", text)
