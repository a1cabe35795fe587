"""What stage prepare makes of a source: tables, splits that are cut and sampled, what is left out, what are copies."""

import json
import logging
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from gnn_encoder.base.tables import SPLITS

from ..project import ROOT
from .conftest import Prepared, Refused, Write, rows
from .sources import ASH, BEIR, OAK, PASSAGES, QUERIES, SOURCES, YEW, lines

TINY = {"source": "beir", "path": str(ROOT / "tests" / "tiny" / "beir")}


def qids(target: Path, split: str) -> list[str]:
    return pl.read_parquet(target / "queries" / f"{split}.parquet")["qid"].to_list()


def statistics(target: Path) -> dict[str, dict[str, int]]:
    return dict(json.loads((target / "statistics.json").read_text()))


def test_tables_and_what_is_left_out(folder: Write, prepared: Prepared, caplog: pytest.LogCaptureFixture) -> None:
    """p8 has neither text nor title and takes its judgement with it; q4 has no positive; one judgement is repeated."""
    more = {
        "corpus.jsonl": lines({"_id": "p8", "title": "", "text": " "}, {"_id": "p9", "title": "No"}),
        "qrels/train.tsv": "q1\tp8\t1\nq1\tp9\t1\nq4\tp1\t0\nq1\tp1\t2\n",
    }
    caplog.set_level(logging.INFO)
    target = prepared(source="beir", path=str(folder(BEIR | {name: BEIR[name] + text for name, text in more.items()})))
    assert rows(target / "passages.parquet") == [*PASSAGES[:3], ("p4", "", "Café"), ("p9", "", "No")]
    # In the order of queries.jsonl; q4 is in no split.
    assert rows(target / "queries" / "train.parquet") == [("q3", QUERIES["q3"], []), ("q1", QUERIES["q1"], [])]
    judged = [("q1", "p1", 2), ("q3", "p3", 1), ("q3", "p2", 0), ("q1", "p3", -1), ("q1", "p9", 1)]
    assert rows(target / "qrels" / "train.parquet") == judged
    assert rows(target / "qrels" / "dev.parquet") == [("q2", "p2", 1)]
    assert rows(target / "counts.parquet") == []
    dropped = {"empty_passages": 1, "texts_replaced_by_titles": 2, "judgements_of_empty_passages": 1}
    assert statistics(target) == {
        "passages": {"passages": 5},
        "train": {"queries": 2, "judgements": 5},
        "dev": {"queries": 1, "judgements": 1},
        "test": {"queries": 2, "judgements": 2},
        "left_out_or_replaced": dropped,
    }
    for told in (
        "left_out_or_replaced: 2 texts replaced by titles, 1 empty passages, 1 judgements of empty passages",
        "train: 1 judgements are given more than once, and taken once",
        "train: 1 queries without a positive grade are left out, with their judgements",
    ):
        assert told in caplog.text


def test_a_log_has_counts_and_may_name_unknown_passages(folder: Write, prepared: Prepared) -> None:
    keys, files, *_ = SOURCES["log"]
    known = files | {"log.tsv": files["log.tsv"] + "Oars\tp3\t2\n"}
    target = prepared(path=str(folder(known)), **keys)
    assert rows(target / "counts.parquet") == [(OAK, "p1", 1), (YEW, "p1", 1), (YEW, "p2", 5)]
    assert rows(target / "qrels" / "dev.parquet") == [(ASH, "p3", 1)]
    names = ("rows_without_a_word", "pairs_below_min_count", "texts_replaced_by_titles")
    assert statistics(target)["left_out_or_replaced"] == dict.fromkeys((*names, "judgements_of_unknown_passages"), 1)


def test_splits_that_are_judged_by_answers(folder: Write, prepared: Prepared) -> None:
    keys, files, *_ = SOURCES["dpr"]
    target = prepared(path=str(folder(files)), **keys)
    assert rows(target / "queries" / "dev.parquet") == [("0", "how long", ["eight hours", "8 hours"])]
    assert qids(target, "train") == ["0", "2"]  # 1 has no positive
    assert rows(target / "qrels" / "dev.parquet") == rows(target / "qrels" / "test.parquet") == []
    found = statistics(target)
    assert (found["train"], found["test"]) == ({"queries": 2, "judgements": 3}, {"queries": 2, "answers": 2})
    keys, files, *_ = SOURCES["dpr as its download has it"]  # without dev, which is cut from train
    target = prepared(path=str(folder(files)), out="cut", **keys)
    assert len(qids(target, "dev")) == 1 == len(qids(target, "train"))
    assert rows(target / "queries" / "dev.parquet")[0][2] == [] and rows(target / "qrels" / "dev.parquet")


def test_queries_in_two_splits_are_said(folder: Write, prepared: Prepared, caplog: pytest.LogCaptureFixture) -> None:
    again = ({"_id": name, "text": text} for name, text in (("q6", " is  YEW pois\u00adonous"), ("q7", QUERIES["q1"])))
    files = BEIR | {"queries.jsonl": BEIR["queries.jsonl"] + lines(*again), "qrels/test.tsv": "q6\tp2\t1\n"}
    prepared(source="beir", path=str(folder(files | {"qrels/train.tsv": BEIR["qrels/train.tsv"] + "q7\tp1\t1\n"})))
    repeated, shared = (record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)
    assert repeated.startswith("warning: 1 training queries repeat another, ")
    assert repeated.endswith(", such as 'q7'; give equal ones one id")
    told = "warning: 1 queries of dev are in test too, such as 'q2'; 1 with the same relevant passage flatter"
    assert shared == told


def test_dev_is_cut_from_train_by_the_seed(folder: Write, prepared: Prepared, caplog: pytest.LogCaptureFixture) -> None:
    full, source = qids(prepared(**TINY), "train"), Path(TINY["path"])
    names = ("corpus.jsonl", "queries.jsonl", "qrels/train.tsv", "qrels/test.tsv")
    keys: dict[str, Any] = TINY | {"path": str(folder({name: (source / name).read_bytes() for name in names}))}
    caplog.set_level(logging.INFO)
    target = prepared(**keys, dev_fraction=0.2, seed=2, out="cut")
    train, dev = qids(target, "train"), qids(target, "dev")
    assert "no dev split in the source: 12 training queries, drawn with seed 2, become dev" in caplog.text
    assert (len(train), len(dev), sorted(train + dev)) == (48, 12, sorted(full))
    assert train == [qid for qid in full if qid in train] and dev != full[:12]  # in the source's order
    for split, chosen in (("train", train), ("dev", dev)):
        assert set(pl.read_parquet(target / "qrels" / f"{split}.parquet")["qid"]) == set(chosen)
    one, same, other = (prepared(**keys, out=f"{i}", seed=s, train_queries=20) for i, s in enumerate((1, 1, 2)))
    assert qids(one, "train") == qids(same, "train") != qids(other, "train")
    assert qids(one, "dev") == qids(same, "dev") != qids(other, "dev")
    assert qids(prepared(**keys, out="smaller", train_queries=10), "dev") == qids(one, "dev")
    assert not set(qids(one, "train")) & set(qids(one, "dev"))


@pytest.mark.parametrize(("size", "train", "hidden"), [(20, 20, 40), (None, 60, 0), (61, 60, 0), (3, 3, 54)])
def test_a_sample_of_train_and_hidden_labels(size: int | None, train: int, hidden: int, prepared: Prepared) -> None:
    """Hidden are the labels of nine queries in ten, at most of those that the sample leaves out."""
    target = prepared(**TINY, train_queries=size)
    assert (len(qids(target, "train")), len(qids(target, "unlabelled"))) == (train, hidden)
    assert not set(qids(target, "unlabelled")) & set(qids(target, "train"))
    judged = pl.read_parquet(target / "qrels" / "unlabelled.parquet")["qid"]
    assert set(judged) == set(qids(target, "unlabelled"))


def test_no_hidden_query_is_in_a_split(folder: Write, prepared: Prepared) -> None:
    """Whatever its case and punctuation: PAIR and the graph would learn from a query that judges them."""
    texts = [f"what is {number}" for number in range(10)]
    asked = {"dev": "What is 3?", "test": "what is  4"} | {f"q{n}": text for n, text in enumerate(texts)}
    qrels = {"dev": "dev\tp2\t1\n", "test": "test\tp2\t1\n", "train": lines(*(f"q{n}\tp1\t1" for n in range(10)))}
    files = {f"qrels/{split}.tsv": text for split, text in qrels.items()}
    files["queries.jsonl"] = lines(*({"_id": qid, "text": text} for qid, text in asked.items()))
    target = prepared(source="beir", path=str(folder(BEIR | files)), train_queries=1)
    (train,), hidden = qids(target, "train"), qids(target, "unlabelled")
    assert set(hidden) == {f"q{number}" for number in range(10)} - {train, "q3", "q4"}
    assert [qid for qid, *_ in rows(target / "qrels" / "unlabelled.parquet")] == hidden


def test_a_sample_of_the_passages(prepared: Prepared, refused: Refused) -> None:
    """It holds all that the queries of a split are judged with, in the source's order; the splits stay as they are."""
    keys, drawn = TINY | {"train_queries": 20}, ((1, None), (1, 70), (1, 70), (2, 70))
    made = [prepared(**keys, passages=n, seed=seed, out=f"{i}") for i, (seed, n) in enumerate(drawn)]
    whole, one, same, other = (rows(target / "passages.parquet") for target in made)
    kept = {pid for pid, *_ in one}
    assert len(kept) == len(other) == statistics(made[1])["passages"]["passages"] == 70
    assert one == [row for row in whole if row[0] in kept] == same != other
    qrels = [{name: rows(target / "qrels" / f"{name}.parquet") for name in (*SPLITS, "unlabelled")} for target in made]
    hidden, judged = qrels[0].pop("unlabelled"), {pid for split in SPLITS for _, pid, _ in qrels[0][split]}
    assert qrels[1].pop("unlabelled") == [row for row in hidden if row[1] in kept] != hidden
    assert qrels[1] == qrels[0] and judged < kept
    assert qids(made[1], "unlabelled") == qids(made[0], "unlabelled")
    rule = f"the passages that the queries are judged with are {len(judged)} alone; raise it to these or more, or lower"
    refused(f"data.passages is {len(judged) - 1}: {rule}", **keys, passages=len(judged) - 1)


def test_the_users_unlabelled_queries_stand_after_the_hidden_ones(prepared: Prepared, tmp_path: Path) -> None:
    keys = {**TINY, "train_queries": 50}
    hidden = pl.read_parquet(prepared(**keys, out="hidden") / "queries" / "unlabelled.parquet")
    (own := tmp_path / "own.txt").write_text("\n".join(["what is new?", *hidden["text"], "and what else?"]))
    target = prepared(**keys, unlabelled=str(own))
    assert qids(target, "unlabelled") == [*hidden["qid"], "unlabelled-0", "unlabelled-1"] and len(hidden) == 10
    assert set(pl.read_parquet(target / "qrels" / "unlabelled.parquet")["qid"]) == set(hidden["qid"])


def test_batches_join_without_a_seam(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    """Passages lie in small row groups: for each hit a search decodes a whole one."""
    whole = prepared(**TINY, out="whole")
    monkeypatch.setattr("gnn_encoder.base.tables.ROW_GROUP", 7)
    monkeypatch.setattr("gnn_encoder.data.prepare.PICKED", 5)
    parts = prepared(**TINY, out="parts")
    for path in whole.rglob("*.parquet"):
        assert rows(path) == rows(parts / path.relative_to(whole))
    assert pq.ParquetFile(parts / "passages.parquet").metadata.row_group(0).num_rows == 5
    assert {path.stem for path in (whole / "queries").iterdir()} == {*SPLITS, "unlabelled"}


# --- passages with the text of another, and queries that are passages -------------------------------------------------

TREES = [
    ("p0", "Oak", "An oak is a tree."),
    ("p1", "", "A yew is a tree."),
    ("p2", "Oak ", "An oak\n\nis a  tree."),  # a copy of p0
    ("p3", "Elm", "An oak is a tree."),  # another title: no copy
    ("a1", "Ash", "Ash wood bends well. It is used for oars."),
    ("p5", "", "A yew\u200b is a t\u00adree."),  # a copy of p1
    ("7", "", "Elms are rare."),
    ("p7", "", "What is an elm?"),
    ("p8", "OAK", "An oak is a tree."),  # other letters: no copy
    ("p9", "", "Caf\u00e9"),
    ("p10", " ", "Cafe\u0301 "),  # a copy of p9
    ("d#0", "", "It is fine."),
]
ASKED = {
    "q0": "An oak is a tree.",  # the text of p0, p2, p3 and p8
    "q1": "A yew is a tree.",  # that of p1 and p5, of which p5 is relevant
    "a1": "\tAsh wood BENDS well.\n",  # the id of a1, and the beginning of its text
    "7": "Is oak wood heavy?",  # an id that says nothing
    "q2": "CAFE\u0301",
    "d": "Is it \ufb01ne?  It is Fine. Is it?",  # holds a part of the document with its id
    "q3": "Anoakisatree.",
    "q4": " What is an elm? ",
    "q5": "oak AN oak is a\u00a0tree.",  # that of p0, p2 and p8 with their title
    "q6": "Elm",  # a title alone is not the passage
}
SOURCE = {
    "corpus.jsonl": lines(*({"_id": pid, "title": title, "text": text} for pid, title, text in TREES)),
    "queries.jsonl": lines(*({"_id": qid, "text": text} for qid, text in ASKED.items())),
    "qrels/train.tsv": "q0\tp1\t1\nq1\tp5\t1\na1\tp7\t1\n7\t7\t0\n7\tp0\t1\nq2\tp1\t1\nd\tp1\t1\nq3\tp1\t1\n",
    "qrels/dev.tsv": "q4\t7\t1\nq5\tp1\t1\n",
    "qrels/test.tsv": "q6\tp3\t1\n",
}


@pytest.mark.parametrize("row_group", [3, 16_384])
def test_copies_and_queries_that_are_passages(
    folder: Write, prepared: Prepared, monkeypatch: pytest.MonkeyPatch, row_group: int
) -> None:
    """White space, invisible characters and how characters are stored make no other text."""
    monkeypatch.setattr("gnn_encoder.base.tables.ROW_GROUP", row_group)
    found = prepared(source="beir", path=str(folder(SOURCE))) / "identical"
    assert rows(found / "copies.parquet") == [(2, 0), (5, 1), (10, 9)]
    assert rows(found / "train.parquet") == [(0, 0), (0, 2), (0, 3), (0, 8), (2, 4), (4, 9), (4, 10), (5, 11)]
    assert rows(found / "dev.parquet") == [(0, 7), (1, 0), (1, 2), (1, 8)]
    assert rows(found / "test.parquet") == rows(found / "unlabelled.parquet") == []
    told = statistics(found.parent)
    assert told["passages"] == {"passages": 12, "copies_of_another": 3}
    assert told["train"]["queries_that_are_passages"] == 4 and "queries_that_are_passages" not in told["test"]
