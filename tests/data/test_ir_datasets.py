"""ir_datasets by name: data sets of local files registered under names of their own, so that nothing is fetched."""

import json
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ir_datasets
import pytest
from ir_datasets.datasets.base import Dataset
from ir_datasets.formats import BaseDocs

from .conftest import Prepared, Refused, rows

Register = Callable[..., None]
DOCS = "d1\tAsh is a tree with black buds.\nd2\tYew is poisonous.\n"
QUERIES = {"train": "q1\twhich tree has black buds\nq2\tis yew poisonous\n", "test": "q3\twhich tree is poisonous\n"}
QRELS = {"train": "q1 0 d1 1\nq2 0 d2 1\n", "test": "q3 0 d2 2\nq3 0 d1 0\n"}


Article = namedtuple("Article", ["doc_id", "title", "text"])


class Articles(BaseDocs):
    """Documents with titles."""

    def docs_iter(self) -> Iterator[Article]:
        return iter([Article("d1", "Ash", "It has black buds."), Article("d2", "Yew", "")])

    def docs_cls(self) -> type[Article]:
        return Article


class Away(Articles):
    def docs_iter(self) -> Iterator[Article]:
        raise ConnectionError("no route to host")


@pytest.fixture
def register(tmp_path: Path) -> Iterator[Register]:
    """Registers NAME/train and NAME/test for the time of a test."""
    names: list[str] = []

    def add(name: str, docs: str | BaseDocs = DOCS, queries: Any = QUERIES, qrels: Any = QRELS) -> None:
        for split in queries:
            keys = {"docs_tsv": docs, "queries_tsv": queries[split], "qrels_trec": qrels[split]}
            files = {key: tmp_path / f"{name}-{split}-{key}" for key, text in keys.items() if isinstance(text, str)}
            for key, path in files.items():
                path.write_text(keys[key])
            found = ir_datasets.create_dataset(**{key: str(path) for key, path in files.items()})
            whole = found if isinstance(docs, str) else Dataset(docs, found)
            ir_datasets.registry.register(f"{name}/{split}", whole)
            names.append(f"{name}/{split}")

    yield add
    for name in names:
        del ir_datasets.registry._registered[name]


def test_data_sets_by_their_names(register: Register, prepared: Prepared) -> None:
    register("trees")
    target = prepared(source="ir_datasets", name="trees")
    assert rows(target / "passages.parquet") == [("d1", "", DOCS[3:33]), ("d2", "", "Yew is poisonous.")]
    train, dev = (rows(target / "qrels" / f"{split}.parquet") for split in ("train", "dev"))
    assert sorted(train + dev) == [("q1", "d1", 1), ("q2", "d2", 1)] and len(dev) == 1
    assert rows(target / "queries" / "test.parquet") == [("q3", "which tree is poisonous", [])]
    assert rows(target / "qrels" / "test.parquet") == [("q3", "d2", 2), ("q3", "d1", 0)]
    register("others", docs=Articles())
    names = {"train": "others/train", "dev": "trees/test", "test": "others/test"}
    target = prepared(source="ir_datasets", names=names, out="named")
    assert [len(rows(target / "queries" / f"{split}.parquet")) for split in names] == [2, 1, 1]
    assert rows(target / "passages.parquet") == [("d1", "Ash", "It has black buds."), ("d2", "", "Yew")]


def test_what_a_user_cannot_mend_is_left_out(register: Register, prepared: Prepared) -> None:
    """d8 and d9 are not there, nor is q9, and q4 has no text; of two grades of a pair the first one counts."""
    judged = "q3 0 d9 2\nq3 0 d1 1\nq3 0 d8 0\nq9 0 d1 1\nq3 0 d1 2\nq4 0 d1 1\n"
    register("lost", queries=QUERIES | {"test": QUERIES["test"] + "q4\t\u200b \n"}, qrels=QRELS | {"test": judged})
    target = prepared(source="ir_datasets", name="lost")
    assert rows(target / "qrels" / "test.parquet") == [("q3", "d1", 1)]
    assert json.loads((target / "statistics.json").read_text())["left_out_or_replaced"] == {
        "empty_queries": 1,
        "judgements_of_unknown_passages": 2,
        "judgements_of_unknown_queries": 2,
        "judgements_that_differ_from_an_earlier_one": 1,
    }


@pytest.mark.parametrize(
    ("made", "keys", "message"),
    [
        ({"docs": Away()}, {"name": "bad"}, "bad/train: ir_datasets could not fetch or read it ('no route"),
        ({"docs": "d1\t \nd2\t\n"}, {"name": "bad"}, "data.name: no passages with a text; add some"),
        ({"qrels": QRELS | {"test": "q3 0 d9 1\n"}}, {"name": "bad"}, "qrels of split test: no query has a positive"),
        ({}, {}, "data.name is null: source ir_datasets needs the set's name, such as beir/scifact; set data.name"),
        ({}, {"name": "forest"}, "data.name: ir_datasets has no forest/train with forest/test; name each split's data"),
        ({}, {"names": {"train": "a", "test": "b"}}, "data.names.train: ir_datasets has no data set 'a'"),
        ({}, {"names": {"train": "bad/train", "test": "beir/scifact"}}, "data.names.test: 'beir/scifact' has no qrels"),
    ],
)  # fmt: skip
def test_bad_data_sets(made: Any, keys: dict[str, Any], message: str, register: Register, refused: Refused) -> None:
    register("bad", **made)
    refused(message, source="ir_datasets", **keys)
