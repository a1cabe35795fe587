"""Source `beir`: corpus.jsonl, queries.jsonl and qrels/{train,dev,test}.tsv, each plain or .gz.

This is the format of Thakur et al. 2021 (https://github.com/beir-cellar/beir), and the one for a user's own data.
"""

from collections.abc import Iterator
from pathlib import Path

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.records import SPLITS
from gnn_encoder.data.lines import check_folder, find, read_json_lines, read_lines, require
from gnn_encoder.data.rows import (
    GRADE,
    NOTHING,
    Judgement,
    Passage,
    Place,
    Query,
    check_grade,
    check_id,
    check_string,
    check_text,
    shorten,
)

HEADER = ["query-id", "corpus-id", "score"]


class Beir:
    """Reader of a folder in BEIR's format.

    Args:
        folder: `data.path`.

    Raises:
        UserError: the folder, or a file that it must have, is missing.
    """

    answered: tuple[str, ...] = ()
    shared_qids = True
    dropped = NOTHING

    def __init__(self, folder: Path) -> None:
        check_folder(folder, "corpus.jsonl")
        self.corpus = require(folder, "corpus.jsonl")
        self.texts = require(folder, "queries.jsonl")
        found = {split: find(folder, f"qrels/{split}.tsv") for split in SPLITS}
        if found["train"] is None:
            cure = "add judged training queries, without which nothing can be trained, or correct data.path"
            raise UserError(f"{folder / 'qrels/train.tsv'}: no such file, nor qrels/train.tsv.gz; {cure}")
        found["test"] = require(folder, "qrels/test.tsv")
        self.qrels = {split: path for split, path in found.items() if path}
        self.splits = tuple(self.qrels)

    def files(self) -> list[Path]:
        """All files that are read, for the fingerprint."""
        return [self.corpus, self.texts, *self.qrels.values()]

    def passages(self) -> Iterator[tuple[Place, Passage]]:
        """All passages."""
        return read_corpus(self.corpus)

    def queries(self, split: str) -> Iterator[tuple[Place, Query]]:
        """The queries of all splits: BEIR keeps them in one file."""
        for place, row in read_json_lines(self.texts):
            yield (
                place,
                Query(qid=check_id(place, "_id", row.get("_id")), text=check_text(place, "text", row.get("text"))),
            )

    def judgements(self, split: str) -> Iterator[tuple[Place, Judgement]]:
        """All judgements of a split; the file's header may be left out."""
        path = self.qrels[split]
        for number, line in read_lines(path):
            columns = line.split("\t")
            place = Place(path, f"line {number}")
            if number > 1 or not _is_header(place, columns):
                yield _judgement(place, columns)


def read_corpus(path: Path) -> Iterator[tuple[Place, Passage]]:
    """The passages of a corpus.jsonl; a title may be missing, null or empty."""
    for place, row in read_json_lines(path):
        title = row.get("title")
        yield (
            place,
            Passage(
                pid=check_id(place, "_id", row.get("_id")),
                title="" if title is None else check_string(place, "title", title),
                text=check_text(place, "text", row.get("text")),
            ),
        )


def _is_header(place: Place, columns: list[str]) -> bool:
    """Whether a first line is the header; it is a judgement if a grade stands last.

    Raises:
        UserError: it is a header with other names.
    """
    if columns != HEADER and len(columns) == len(HEADER) and not GRADE.fullmatch(columns[-1]):
        raise UserError(
            f"{place}: {shorten(', '.join(columns))} is neither a judgement nor the header {', '.join(HEADER)}; "
            "correct it, or leave the header out"
        )
    return columns == HEADER


def _judgement(place: Place, columns: list[str]) -> tuple[Place, Judgement]:
    if len(columns) != len(HEADER):
        raise UserError(
            f"{place}: {len(columns)} columns, not {len(HEADER)}; write {', '.join(HEADER)} with a tab between them"
        )
    qid, pid, grade = columns
    judgement = Judgement(
        check_id(place, HEADER[0], qid), check_id(place, HEADER[1], pid), check_grade(place, HEADER[2], grade)
    )
    return place, judgement
