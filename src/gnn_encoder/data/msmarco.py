"""Source `msmarco`: MS MARCO passage ranking, with TREC Deep Learning 2019 or 2020 as test; files plain or .gz.

The files of https://microsoft.github.io/msmarco/Datasets and https://trec.nist.gov/data/deep.html, with tabs between
columns:

    collection.tsv                                        passage id, text
    queries.train.tsv, queries.dev.small.tsv              query id, text
    qrels.train.tsv, qrels.dev.small.tsv                  query id, 0, passage id, grade
    msmarco-test2019-queries.tsv, 2019qrels-pass.txt      the same columns, in the qrels with blanks; or those of 2020

RocketQA's and PAIR's files (https://github.com/PaddlePaddle/RocketQA) have other names, and titles: para.txt, and
para.title.txt with passage id and title, in the order of para.txt, where `-` means none; train.query.txt and
dev.query.txt; qrels of two columns, query id and passage id.

The labels of MS MARCO's own test queries are not public. Its dev queries therefore serve as the test split
(`data.test: dev`), and the dev split is cut from train. With TREC's queries as the test split, MS MARCO's dev queries
are the dev split.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Literal

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.tables import SPLITS
from gnn_encoder.data.lines import as_it_is, check_folder, find, read_columns, read_judged, require
from gnn_encoder.data.rows import Passage, Place, Query, Source, check_id, check_text

PASSAGES = ("collection.tsv", "para.txt")
TITLES = "para.title.txt"
TRAIN = (("queries.train.tsv", "train.query.txt"), ("qrels.train.tsv",))
DEV = (("queries.dev.small.tsv", "queries.dev.tsv", "dev.query.txt"), ("qrels.dev.small.tsv", "qrels.dev.tsv"))
TESTS = {
    "dev": DEV,
    "trec_dl_2019": (("msmarco-test2019-queries.tsv",), ("2019qrels-pass.txt",)),
    "trec_dl_2020": (("msmarco-test2020-queries.tsv",), ("2020qrels-pass.txt",)),
}
NO_TITLE = "-"
COLUMNS = ["id", "text"]


def open_msmarco(folder: Path, test: Literal["dev", "trec_dl_2019", "trec_dl_2020"]) -> Source:
    """A folder of MS MARCO's files."""
    check_folder(folder, PASSAGES[0])
    names = {"train": TRAIN, "test": TESTS[test]}
    if test != "dev" and find(folder, *DEV[0]):
        names["dev"] = DEV
    splits = [split for split in SPLITS if split in names]
    collection, titles = require(folder, *PASSAGES), find(folder, TITLES)
    texts = {split: require(folder, *names[split][0]) for split in splits}
    qrels = {split: require(folder, *names[split][1]) for split in splits}
    return Source(
        files=[collection, *([titles] if titles else []), *texts.values(), *qrels.values()],
        passages=partial(_passages, collection, titles),
        queries={split: partial(_queries, path) for split, path in texts.items()},
        judgements={split: partial(read_judged, path) for split, path in qrels.items()},
    )


def _passages(collection: Path, titles: Path | None) -> Iterator[tuple[Place, Passage]]:
    """All passages, with a title where para.title.txt has one; both files are streamed side by side."""
    titled = read_columns(titles, ["id", "title"], as_it_is) if titles else iter(())
    waiting = next(titled, None)
    for place, (pid, text) in read_columns(collection, COLUMNS, _with_id):
        title = ""
        if waiting and waiting[1][0] == pid:
            title, waiting = waiting[1][1], next(titled, None)
        yield place, Passage(pid, "" if title == NO_TITLE else title, text)
    if waiting:
        place, (pid, _) = waiting
        rule = f"{pid!r} is not a passage of {collection}, or not in its order"
        raise UserError(f"{place}: {rule}; sort the titles as the passages are")


def _queries(path: Path) -> Iterator[tuple[Place, Query]]:
    """The queries of a split, and others without judgements, which stand in the same file."""
    return read_columns(path, COLUMNS, _query)


def _query(place: Place, row: list[str]) -> Query:
    qid, text = _with_id(place, row)
    return Query(qid, check_text(place, "text", text))


def _with_id(place: Place, row: list[str]) -> tuple[str, str]:
    key, text = row
    return check_id(place, "id", key), text
