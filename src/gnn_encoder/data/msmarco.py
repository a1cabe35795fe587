"""Source `msmarco`: MS MARCO passage ranking, with TREC Deep Learning 2019 or 2020 as test; files plain or .gz.

The files of https://microsoft.github.io/msmarco/Datasets and https://trec.nist.gov/data/deep.html, with tabs between
columns:

    collection.tsv                                        passage id, text
    queries.train.tsv, queries.dev.small.tsv              query id, text
    qrels.train.tsv, qrels.dev.small.tsv                  query id, 0, passage id, grade
    msmarco-test2019-queries.tsv, 2019qrels-pass.txt      the same columns, in the qrels with blanks; or those of 2020

The files of RocketQA and PAIR (https://github.com/PaddlePaddle/RocketQA) are read too. They have other names, and there
are titles: para.txt, and para.title.txt with passage id and title, in the order of para.txt; train.query.txt and
dev.query.txt; qrels of two columns, query id and passage id. A title `-` means that there is none.

The labels of MS MARCO's own test queries are not public. Its dev queries therefore serve as the test split
(`data.test: dev`), and the dev split is cut from train. With TREC's queries as the test split, MS MARCO's dev queries
are the dev split.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.records import SPLITS
from gnn_encoder.data.lines import check_folder, find, read_lines, require
from gnn_encoder.data.rows import NOTHING, Judgement, Passage, Place, Query, check_grade, check_id, check_text, shorten

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


class MSMARCO:
    """Reader of a folder of MS MARCO's files.

    Args:
        folder: `data.path`.
        test: `data.test`: which queries are the test split.

    Raises:
        UserError: the folder, or a file that it must have, is missing.
    """

    answered: tuple[str, ...] = ()
    shared_qids = True
    dropped = NOTHING

    def __init__(self, folder: Path, test: Literal["dev", "trec_dl_2019", "trec_dl_2020"]) -> None:
        check_folder(folder, PASSAGES[0])
        names = {"train": TRAIN, "test": TESTS[test]}
        if test != "dev" and find(folder, *DEV[0]):
            names["dev"] = DEV
        self.collection = require(folder, *PASSAGES)
        self.titles = find(folder, TITLES)
        self.texts = {split: require(folder, *queries) for split, (queries, _) in names.items()}
        self.qrels = {split: require(folder, *qrels) for split, (_, qrels) in names.items()}
        self.splits = tuple(split for split in SPLITS if split in names)

    def files(self) -> list[Path]:
        """All files that are read, for the fingerprint."""
        titles = [self.titles] if self.titles else []
        return [self.collection, *titles, *self.texts.values(), *self.qrels.values()]

    def passages(self) -> Iterator[tuple[Place, Passage]]:
        """All passages, with a title where para.title.txt has one."""
        rows = _read_texts(self.collection)
        if self.titles is None:
            return ((place, Passage(pid, "", text)) for place, pid, text in rows)
        return self._titled(rows, self.titles)

    def queries(self, split: str) -> Iterator[tuple[Place, Query]]:
        """The queries of a split, and others without judgements, which stand in the same file."""
        return ((place, Query(qid, text)) for place, qid, text in _read_texts(self.texts[split]))

    def judgements(self, split: str) -> Iterator[tuple[Place, Judgement]]:
        """All judgements of a split."""
        for number, line in read_lines(self.qrels[split]):
            place = Place(self.qrels[split], f"line {number}")
            columns = line.split()
            if len(columns) not in (2, 4):
                raise UserError(
                    f"{place}: {len(columns)} columns; write query id, 0, passage id and grade, or the two ids alone"
                )
            qid, pid = columns[0], columns[-2] if len(columns) == 4 else columns[1]
            grade = check_grade(place, "grade", columns[3]) if len(columns) == 4 else 1
            yield place, Judgement(qid, pid, grade)

    def _titled(self, rows: Iterator[tuple[Place, str, str]], path: Path) -> Iterator[tuple[Place, Passage]]:
        """Join passages with their titles while both files are streamed side by side."""
        titles = _read_titles(path)
        title = next(titles, None)
        for place, pid, text in rows:
            if title and title[1] == pid:
                yield place, Passage(pid, title[2], text)
                title = next(titles, None)
            else:
                yield place, Passage(pid, "", text)
        if title:
            raise UserError(
                f"{title[0]}: {title[1]!r} is not a passage of {self.collection}, or not in its order; "
                "sort the titles as the passages are"
            )


def _read_texts(path: Path) -> Iterator[tuple[Place, str, str]]:
    for place, key, text in _read_pairs(path):
        yield place, check_id(place, "id", key), check_text(place, "text", text)


def _read_titles(path: Path) -> Iterator[tuple[Place, str, str]]:
    for place, pid, title in _read_pairs(path):
        yield place, pid, "" if title == NO_TITLE else title


def _read_pairs(path: Path) -> Iterator[tuple[Place, str, str]]:
    for number, line in read_lines(path):
        place = Place(path, f"line {number}")
        key, tab, text = line.partition("\t")
        if not tab or "\t" in text:
            columns = line.count("\t") + 1
            raise UserError(f"{place}: {columns} columns, not 2, in {shorten(line)}; write id, tab, text")
        yield place, key, text
