"""Every source's format: the rows that are read, plain and packed, and the one line for each kind of bad input."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.data.formats import open_insuranceqa
from gnn_encoder.data.prepare import open_source
from gnn_encoder.data.reading import DataSource, find, read_columns, read_json_lines, read_lines

from .conftest import Refused, Write, data_of, write_files
from .sources import OBJECTS, SOURCES


def rows_of(source: DataSource) -> tuple[Any, Any, Any]:
    """Passages, queries and judgements."""
    queries, judgements = (
        {s: [row for _, row in read()] for s, read in of.items()} for of in (source.queries, source.judgements)
    )
    return [row for _, row in source.passages()], queries, judgements


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", SOURCES)
def test_rows(name: str, packed: bool, folder: Write) -> None:
    keys, files, *expected = SOURCES[name]
    path = folder({f"{n}.gz": gzip.compress(text.encode()) for n, text in files.items()} if packed else files)
    source = open_source(data_of(path=str(path), **keys))
    assert rows_of(source) == tuple(expected) == rows_of(source)
    assert all(file.is_file() for file in source.files)


def test_insuranceqa(folder: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"1": {"zh": "", "en": " Coverage  follows\tthe car. "}, "2": {"en": "No."}}
    query = {"en": "Is  It  Required?", "domain": "d", "answers": ["2", "1"], "negatives": ["1"]}
    entries = {"answers": answers, **dict.fromkeys(("train", "valid", "test"), {"0": query})}
    path = folder({f"{name}.json.gz": gzip.compress(json.dumps(one).encode()) for name, one in entries.items()})
    passages, queries, judgements = rows_of(open_insuranceqa(path))
    assert passages == [("1", "", "Coverage follows the car."), ("2", "", "No.")]
    assert queries == dict.fromkeys(("train", "dev", "test"), [("0", "Is It Required?", ())])
    assert judgements == dict.fromkeys(queries, [("0", "2", 1, None), ("0", "1", 1, None)])
    (path / "answers.json.gz").write_bytes((path / "answers.json.gz").read_bytes()[:40])
    with pytest.raises(UserError, match=r"answers\.json\.gz: damaged .* --force-reinstall insuranceqa-data==1\.0"):
        list(open_insuranceqa(path).passages())
    monkeypatch.setattr("gnn_encoder.data.formats.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"run `pip install insuranceqa-data==1\.0`"):
        open_insuranceqa()


# --- bad input --------------------------------------------------------------------------------------------------------

# Source and file -> what is added to the file, and what is told.
ADDED: dict[tuple[str, str], dict[str, str]] = {
    ("beir", "corpus.jsonl"): {
        '{"text": "a"}\n': "corpus.jsonl, line 5, _id: missing; add it or remove the row",
        '{"_id": ""}\n': "corpus.jsonl, line 5, _id: '' is empty; give it an id",
        '{"_id": "a b"}\n': "line 5, _id: 'a b' has white space, a TREC run cannot carry it",
        '{"_id": 7}\n': "corpus.jsonl, line 5, _id: 7 is not a string; put it in quotes",
        '{"_id": "p5", "title": " "}\n': "corpus.jsonl, line 5, text: missing; add it or remove the row",
        '{"_id": "p5", "text": "\\ud800"}\n': "line 5, text: '\\ud800' is half a character (a lone surrogate)",
        "\n[1]\n": "corpus.jsonl, line 6: '[1]' is not a JSON object; write one object a line",
        '{"_id": "1"\n': "line 5: '{\"_id\": \"1\"' is not JSON (Expecting ',' delimiter, column 12); write",
        '{"_id": "p2", "text": "again"}\n': "line 5, passage id: 'p2' is also the id in line 2; give each row",
        '{"_id": "p2", "text": " "}\n': "corpus.jsonl, passage id: 'p2' is the id of a passage with a text and of one",
    },
    ("beir", "queries.jsonl"): {
        '{"_id": "q4", "text": "a"}\n': "queries.jsonl, line 5, query id: 'q4' is also the id in line 4; give",
        '{"_id": "q7", "text": " \\u200b\\n"}\n': "line 5, text: ' \\u200b\\n' is empty; give it a text or remove",
    },
    ("beir", "qrels/train.tsv"): {
        "q1\tp1\t1\n": "line 6: query 'q1' and passage 'p1' are judged twice, differently; keep one",
        "q1\tp9\t1\n": "train.tsv, line 6: passage 'p9' is not in the corpus; add it or remove the",
        "q3\tp3\t1\nq3\tp3\t1\nq9\tp1\t1\n": "train.tsv, line 8: query 'q9' is not among the queries; add it",
        "q1\tp\xa01\t1\n": "train.tsv, line 6, passage: 'p\\xa01' has white space, a TREC run cannot",
        "q1 0 p1 1\n": "line 6: 4 fields between tabs or blanks; a line is `qid 0 pid grade` (TREC)",
        "q1\tp2\t2147483648\n": "train.tsv, line 6, grade: '2147483648' is not an integer; write 1 for",
    },
    ("msmarco", "collection.tsv"): {
        "9\ta\tb\n": "collection.tsv, line 5: 3 columns, not 2; write id, text with a tab between them",
    },
    ("rocketqa", "para.title.txt"): {"2\tTides\n": "para.title.txt, line 4: '2' is not a passage of"},
    ("dpr", "psgs_w100.tsv"): {
        '7\t"text\ttitle\n': "line 4: 2 columns, not 3; write id, text, title with a tab between them, quotes",
    },
    ("dpr", "nq-test.qa.csv"): {
        "who\t__import__('os')\n": "line 3, answers: \"__import__('os')\" is no Python list of answers",
        "who\t['', ' ']\n": "line 3, answers: \"['', ' ']\" is no Python list of answers; write ['answer', ",
        "who\t[1854]\n": "nq-test.qa.csv, line 3, answers: 1854 is not a string; put it in quotes",
    },
    ("dpr", "biencoder-nq-train.json"): {"more": "biencoder-nq-train.json, after item 2: not JSON ("},
    ("log", "log.tsv"): {
        "ash\tp1\t2.5\n": "line 10, count: '2.5' is not a whole number from 0 to 1,000,000,000,000; correct it",
    },
}
# What stands in the file instead; None: there is no such file.
REPLACED: dict[tuple[str, str], dict[str | bytes | None, str]] = {
    ("beir", "corpus.jsonl"): {
        None: "corpus.jsonl: no such file, nor corpus.jsonl.gz; add it, or correct data.path",
        "": "corpus.jsonl: no passages with a text; add some",
        '{"_id": "p1", "text": "a"}': "corpus.jsonl: one passage alone, so that there is nothing to rank; add",
        b"\xff\xfe{\x00": "corpus.jsonl, line 1, byte 1: 0xff is not UTF-8 (invalid start byte); convert the file",
    },
    ("beir", "qrels/train.tsv"): {None: "train.tsv: no such file, nor qrels/train.tsv.gz; add it, or correct"},
    ("beir", "qrels/dev.tsv"): {
        "query-id\tcorpus-id\tscore\n": "qrels of split dev: no query has a positive grade of a passage",
        "Query-ID\tCorpus-ID\tScore\n": "'Query-ID\\tCorpus-ID\\tScore' looks like a header; write `query-id",
        "#\nquery-id\tcorpus-id\tscore\nq1\tp1\t1\n": "line 1: 1 fields between tabs or blanks; a line is `qid 0",
    },
    ("trec dl", "qrels.dev.small.tsv"): {
        None: "qrels.dev.small.tsv: no such file, nor qrels.dev.small.tsv.gz, qrels.dev.tsv; add",
    },
    ("dpr", "nq-test.qa.csv"): {
        None: "nq-test.qa.csv: no such file, nor nq-test.qa.csv.gz, nq-test.csv, retriever/qas/nq-test.csv",
        "": "queries of split test: there are none; add some with answers",
    },
    ("dpr", "biencoder-nq-train.json"): {
        '[{"question": "w", "positive_ctxs": []}, {"que': "after item 0: not JSON (",
        "{}": "biencoder-nq-train.json: no items; it must be a JSON array of queries",
        "[5]": "item 0: 5 is no JSON object; write one a query",
        '[{"positive_ctxs": []}]': "item 0, query: missing; add it or remove the row",
        '[{"question": "w"}]': "item 0, positive_ctxs: None is no list of objects; give one",
    },
    ("log", "log.tsv"): {
        None: "log.tsv: no such file, nor log.tsv.gz, log.jsonl; add it",
        "text\tpid\nash\tp1\n": "log.tsv, line 1: 0 columns query in 'text, pid': there must be query, pid and may",
        "query\tpid\tpid\n": "log.tsv, line 1: 2 columns pid in 'query, pid, pid': there must be",
        "query\tpid\n": "log.tsv: no query with a letter or a digit was logged 1 times or more with a passage; log",
        "query\tpid\n???\tp1\n": "log.tsv: no query with a letter or a digit was logged 1 times or more",
        "query\tpid\tcount\nash\tp1\t0\n": "log.tsv: no query with a letter or a digit was logged 1 times or more",
        "query\tpid\nash\tp1\n": "log.tsv: none of 1 queries is in split train; log more, or change data.test_fr",
    },
    ("log", "log.jsonl"): {"{}\n": "log.tsv: log.jsonl is there as well; keep one log"},
    ("log of objects", "log.jsonl"): {
        b"\x1f\x8b\x08": "log.jsonl: gzip data cut off or damaged (Compressed file ended",
        gzip.compress(OBJECTS.encode() * 99)[:-8] + bytes(8): "gzip data cut off or damaged (CRC check failed",
    },
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_bad_row_or_file(name: str, tmp_path: Path, refused: Refused) -> None:
    keys, files, *_ = SOURCES[name]
    bad = [(at, files[at] + text, told) for of, at in ADDED if of == name for text, told in ADDED[of, at].items()]
    bad += [(at, text, told) for of, at in REPLACED if of == name for text, told in REPLACED[of, at].items()]
    for number, (file, text, told) in enumerate(bad):
        changed = {other: content for other, content in files.items() if other != file}
        path = write_files(tmp_path / f"{number}", changed if text is None else changed | {file: text})
        refused(told, path=str(path), **keys)


def test_bad_keys(refused: Refused) -> None:
    refused("data.path is null: source beir needs the folder that holds corpus.jsonl; set data.path", source="beir")
    refused("data.path: nowhere is not a folder; give the one that holds corpus", source="beir", path="nowhere")
    refused("own.txt: no such file; correct its path", source="insuranceqa", unlabelled="own.txt")
    refused("data.name is null: source dpr needs the set's name, nq or trivia; set data", source="dpr", path=".")


# --- lines ------------------------------------------------------------------------------------------------------------


def test_lines_are_numbered_and_stripped_of_their_ends(folder: Write) -> None:
    path = folder({"a.tsv": "\ufeff\ufeffone\r\n\ufeff \t\r\n two \n\ufeffd\u2028r\ufeffei"}) / "a.tsv"
    assert list(read_lines(path)) == [
        (f"{path}, line 1", "one"),
        (f"{path}, line 3", " two "),
        (f"{path}, line 4", "d\u2028r\ufeffei"),
    ]


def test_json_that_python_does_not_read(folder: Write) -> None:
    deep = f"line 1: '{'[' * 59}... is not JSON (maximum recursion depth exceeded"
    for content, message in (("[" * 100_000, deep), ('{"n": ' + "9" * 5000 + "}", "is not JSON (Exceeds the limit")):
        with pytest.raises(UserError) as error:
            list(read_json_lines(folder({"a": content}) / "a"))
        assert message in str(error.value) and "\n" not in str(error.value)


def test_a_column_may_be_longer_than_csv_allows(folder: Write) -> None:
    text = "A long railway. " * 20_000
    (row,) = read_columns(folder({"a.tsv": f'7\t"{text}"\tLong\n'}) / "a.tsv", ["id", "text", "title"], quoted=True)
    assert row[1] == {"id": "7", "text": text, "title": "Long"}


def test_find_takes_the_first_name_and_refuses_two_forms(folder: Write) -> None:
    path = folder({"b.tsv": "", "a.tsv.gz": ""})
    assert find(path, "a.tsv", "b.tsv") == path / "a.tsv.gz" and find(path, "c.tsv") is None
    folder({"a.tsv": ""})
    with pytest.raises(UserError, match=r"a\.tsv\.gz is there as well; keep one"):
        find(path, "a.tsv")
