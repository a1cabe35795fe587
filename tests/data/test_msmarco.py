"""MS MARCO's, RocketQA's and TREC DL's files -> tables, and the one line for each kind of bad one."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Sample, Prepared, Rows = Callable[[str], Path], Callable[..., Path], Callable[[Path], list[Any]]


def test_passages(sample: Sample, prepared: Prepared, rows: Rows) -> None:
    passages = rows(prepared(source="msmarco", path=str(sample("msmarco"))) / "passages.parquet")
    assert len(passages) == 8
    assert passages[4] == ("4", "", "A café in the harbour sells smoked eel, which is caught at night.")


def test_dev_is_reported_and_choices_are_made_on_a_part_of_train(
    sample: Sample, prepared: Prepared, rows: Rows, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    target = prepared(source="msmarco", path=str(sample("msmarco")))
    assert rows(target / "queries" / "test.parquet") == [
        ("2000", "where is the highest tide", []),
        ("2001", "when is eel caught", []),
    ]
    assert rows(target / "qrels" / "test.parquet") == [("2000", "3", 1), ("2001", "4", 1)]
    assert "no dev split in the source: 1 training queries, drawn with seed 1, become dev" in caplog.text
    train, dev = (rows(target / "queries" / f"{split}.parquet") for split in ("train", "dev"))
    assert len(dev) == 1 and sorted(row[0] for row in train + dev) == ["1000", "1001", "1002", "1004"]


def test_a_judgement_that_is_repeated_counts_once(
    sample: Sample, prepared: Prepared, rows: Rows, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    target = prepared(source="msmarco", path=str(sample("msmarco")))
    judged = rows(target / "qrels" / "train.parquet") + rows(target / "qrels" / "dev.parquet")
    assert sorted(judged) == [("1000", "0", 1), ("1000", "1", 1), ("1001", "5", 1), ("1002", "6", 1), ("1004", "2", 1)]
    assert "train: 1 judgements are given more than once, and taken once" in caplog.text


def test_trec_dl_queries_keep_their_grades_and_leave_dev_to_msmarco(
    sample: Sample, prepared: Prepared, rows: Rows
) -> None:
    target = prepared(source="msmarco", path=str(sample("msmarco")), test="trec_dl_2019")
    assert [row[0] for row in rows(target / "queries" / "dev.parquet")] == ["2000", "2001"]
    assert len(rows(target / "queries" / "train.parquet")) == 4
    assert rows(target / "queries" / "test.parquet") == [
        ("3000", "what warns ships in fog", []),
        ("3001", "do barnacles harm ships", []),
    ]
    assert rows(target / "qrels" / "test.parquet") == [
        ("3000", "7", 3), ("3000", "1", 1), ("3000", "4", 0), ("3001", "5", 2), ("3001", "6", 1)
    ]  # fmt: skip


def test_trec_dl_without_msmarco_dev_cuts_dev_from_train(sample: Sample, prepared: Prepared, rows: Rows) -> None:
    folder = sample("msmarco")
    for name in ("queries", "qrels"):
        (folder / f"{name}.dev.small.tsv").unlink()
    target = prepared(source="msmarco", path=str(folder), test="trec_dl_2020")
    assert rows(target / "qrels" / "test.parquet") == [("4000", "3", 3), ("4000", "2", 0)]
    assert len(rows(target / "queries" / "dev.parquet")) == 1


def test_rocketqa_has_titles(sample: Sample, prepared: Prepared, rows: Rows) -> None:
    target = prepared(source="msmarco", path=str(sample("rocketqa")))
    titles = [row[:2] for row in rows(target / "passages.parquet")]
    # Passage 2 has the title `-`, passage 4 no line in the file of titles.
    assert titles == [
        ("0", "Lighthouse lamps"), ("1", "Light characteristics"), ("2", ""), ("3", "Bay of Fundy - Tides"),
        ("4", ""), ("5", "Barnacles and hulls"),
    ]  # fmt: skip
    assert rows(target / "qrels" / "test.parquet") == [("2000", "3", 1), ("2001", "4", 1)]


BAD = {
    "three columns": (
        "collection.tsv",
        "9\ta\tb\n",
        "collection.tsv, line 9: 3 columns, not 2; write id, text with a tab between",
    ),
    "one column": ("queries.train.tsv", "1009\n", "queries.train.tsv, line 6: 1 columns, not 2; write id, text with"),
    "grade": ("qrels.train.tsv", "1000\t0\t2\tyes\n", "qrels.train.tsv, line 7, grade: 'yes' is not an integer"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_rows(name: str, sample: Sample, refused: Callable[..., None], append: Callable[..., Any]) -> None:
    folder = sample("msmarco")
    file, text, message = BAD[name]
    append(file, text)(folder)
    refused(message, source="msmarco", path=str(folder))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("9\tHarbours\n", "para.title.txt, line 6: '9' is not a passage of"),
        ("4\tEels\n", "para.title.txt, line 6: '4' is not a passage of"),  # after 5: out of order
        ("5\n", "para.title.txt, line 6: 1 columns, not 2"),
    ],
)
def test_bad_titles(
    text: str, message: str, sample: Sample, refused: Callable[..., None], append: Callable[..., Any]
) -> None:
    folder = sample("rocketqa")
    append("para.title.txt", text)(folder)
    refused(message, source="msmarco", path=str(folder))


@pytest.mark.parametrize(
    ("gone", "keys", "message"),
    [
        ("qrels.train.tsv", {}, "qrels.train.tsv: no such file, nor qrels.train.tsv.gz; add it"),
        ("qrels.dev.small.tsv", {"test": "trec_dl_2019"}, "qrels.dev.small.tsv: no such file"),
    ],
)
def test_missing_files(
    gone: str, keys: dict[str, str], message: str, sample: Sample, refused: Callable[..., None]
) -> None:
    folder = sample("msmarco")
    (folder / gone).unlink()
    refused(message, source="msmarco", path=str(folder), **keys)
