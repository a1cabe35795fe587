"""Source `dpr`: Natural Questions, TriviaQA and the other sets of DPR (Karpukhin et al. 2020), each file plain or .gz.

As distributed (https://github.com/facebookresearch/DPR), in one folder or in the folders that DPR's download makes:

    psgs_w100.tsv                                    header; id, text, title; a text with quotes is quoted as in CSV
    biencoder-NAME-train.json                        one array of {"query", "positive_ctxs": [{"passage_id"}], ...}
    NAME-dev.qa.csv, NAME-test.qa.csv                query, tab, a Python list of answers

NAME is nq, trivia, webq, curatedtrec or squad1. All positive_ctxs are positives; TriviaQA calls their ids `psg_id`. A
query without any is passed over, as by DPR. Dev and test queries are judged by their answers. Queries have no
ids in these files: theirs are their numbers, from 0.
"""

import ast
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ijson

from gnn_encoder.core.errors import UserError
from gnn_encoder.data.lines import DAMAGED_GZIP, check_folder, find, open_binary, read_lines, require
from gnn_encoder.data.rows import Judgement, Passage, Place, Query, check_id, check_string, check_text, shorten

HEADER = ["id", "text", "title"]
PASSAGES = ("psgs_w100.tsv", "wikipedia_split/psgs_w100.tsv")
EXAMPLES = ("biencoder-{0}-train.json", "retriever/{0}-train.json")
ANSWERED = ("{0}-{1}.qa.csv", "{0}-{1}.csv", "retriever/qas/{0}-{1}.csv")


class DPR:
    """Reader of a folder of DPR's files.

    Args:
        folder: `data.path`.
        name: `data.name`: nq, trivia, ...

    Raises:
        UserError: the folder, or a file that it must have, is missing.
    """

    shared_qids = False

    def __init__(self, folder: Path, name: str) -> None:
        check_folder(folder, PASSAGES[0])
        self.collection = require(folder, *PASSAGES)
        self.examples = require(folder, *(pattern.format(name) for pattern in EXAMPLES))
        tables = {"test": require(folder, *(pattern.format(name, "test") for pattern in ANSWERED))}
        dev = find(folder, *(pattern.format(name, "dev") for pattern in ANSWERED))
        self.tables = {"dev": dev, **tables} if dev else tables
        self.answered = tuple(self.tables)
        self.splits = ("train", *self.answered)

    def files(self) -> list[Path]:
        """Everything that is read, for the fingerprint."""
        return [self.collection, self.examples, *self.tables.values()]

    def passages(self) -> Iterator[tuple[Place, Passage]]:
        """All passages; the header may be left out."""
        for place, columns in _read_table(self.collection, HEADER):
            if columns == HEADER and place.row == "line 1":
                continue
            pid, text, title = columns
            yield place, Passage(check_id(place, "id", pid), title, check_text(place, "text", text))

    def queries(self, split: str) -> Iterator[tuple[Place, Query]]:
        """The queries of a split, with answers where they judge it."""
        if split == "train":
            for number, (place, item) in enumerate(_read_array(self.examples)):
                yield place, Query(str(number), check_text(place, "query", item.get("query")))
            return
        for number, (place, (text, answers)) in enumerate(_read_table(self.tables[split], ["query", "answers"])):
            yield place, Query(str(number), check_text(place, "query", text), _answers(place, answers))

    def judgements(self, split: str) -> Iterator[tuple[Place, Judgement]]:
        """Each positive passage of the training queries once, with grade 1."""
        if split in self.answered:
            return
        for number, (place, item) in enumerate(_read_array(self.examples)):
            for pid in dict.fromkeys(_positives(place, item)):
                yield place, Judgement(str(number), pid, 1)


def _read_table(path: Path, header: list[str]) -> Iterator[tuple[Place, list[str]]]:
    """Rows of a tab-separated table with CSV's quotes; a row is a line."""
    for number, line in read_lines(path):
        place = Place(path, f"line {number}")
        try:
            columns = next(csv.reader([line], delimiter="\t"))
        except csv.Error as error:
            raise UserError(f"{place}: {shorten(line)} is no row of a table ({error}); mend or remove it") from error
        if len(columns) != len(header):
            raise UserError(
                f"{place}: {len(columns)} columns, not {len(header)}; write {', '.join(header)} with a tab between "
                'them, quotes that open a column closed and those inside doubled ("")'
            )
        yield place, columns


def _answers(place: Place, text: str) -> tuple[str, ...]:
    """The answers that are not blank; csv has seen to it that the text has at most 131,072 characters."""
    try:
        values = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise UserError(
            f"{place}, answers: {shorten(text)} is no Python list ({type(error).__name__}); write ['answer', ...]"
        ) from error
    if not isinstance(values, list):
        raise UserError(f"{place}, answers: {shorten(text)} is no list; write ['answer', ...]")
    found = tuple(answer for value in values if (answer := check_string(place, "answers", value)).strip())
    if not found:
        raise UserError(f"{place}, answers: {shorten(text)} has no answer; give one or remove the row")
    return found


def _read_array(path: Path) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Objects of a file that is one JSON array, one at a time, however long it is."""
    number = -1
    with open_binary(path) as file:
        try:
            for number, item in enumerate(ijson.items(file, "item", use_float=True)):
                place = Place(path, f"item {number}")
                if not isinstance(item, dict):
                    raise UserError(f"{place}: {shorten(item)} is no JSON object; write one a query")
                yield place, item
        except (ijson.JSONError, UnicodeDecodeError) as error:
            raise UserError(
                f"{path}, after item {number}: not JSON ({_one_line(error)}); it must be one array in UTF-8, whole"
            ) from error
        except DAMAGED_GZIP as error:
            raise UserError(
                f"{path}: gzip data cut off or damaged after item {number} ({error}); fetch or compress the file again"
            ) from error
    if number < 0:
        raise UserError(f"{path}: no items; it must be a JSON array of queries")


def _positives(place: Place, item: dict[str, Any]) -> Iterator[str]:
    contexts = item.get("positive_ctxs")
    if not isinstance(contexts, list) or not all(isinstance(context, dict) for context in contexts):
        raise UserError(f"{place}, positive_ctxs: {shorten(contexts)} is no list of objects; give one, perhaps empty")
    for context in contexts:
        pid = context.get("passage_id", context.get("psg_id"))
        yield check_id(place, "passage_id", str(pid) if isinstance(pid, int) else pid)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
