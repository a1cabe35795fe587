"""Source `dpr`: Natural Questions, TriviaQA and the other sets of DPR (Karpukhin et al. 2020), each file plain or .gz.

The files are those of https://github.com/facebookresearch/DPR, in one folder or in the folders that its download makes:

    psgs_w100.tsv                                    header; id, text, title; a text with quotes is quoted as in CSV
    biencoder-NAME-train.json                        one array of {"question", "positive_ctxs": [{"passage_id"}], ...}
    NAME-dev.qa.csv, NAME-test.qa.csv                query, tab, a Python list of answers

NAME is nq, trivia, webq, curatedtrec or squad1. All positive_ctxs are positives; TriviaQA calls their ids `psg_id`. A
training query without positives is left out, as in DPR. Dev and test queries are judged by their answers. Queries have
no ids in these files; the number of a query in its file, from 0, becomes its id.
"""

import ast
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gnn_encoder.core.errors import UserError
from gnn_encoder.data.lines import check_folder, find, read_json_items, read_lines, require
from gnn_encoder.data.rows import NOTHING, Judgement, Passage, Place, Query, check_id, check_string, check_text, shorten

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
    dropped = NOTHING

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
        """All files that are read, for the fingerprint."""
        return [self.collection, self.examples, *self.tables.values()]

    def passages(self) -> Iterator[tuple[Place, Passage]]:
        """All passages; the header may be left out."""
        for place, columns in _read_table(self.collection, HEADER):
            if columns == HEADER and place.row == "line 1":
                continue
            pid, text, title = columns
            yield place, Passage(check_id(place, "id", pid), title, check_text(place, "text", text))

    def queries(self, split: str) -> Iterator[tuple[Place, Query]]:
        """The queries of a split, with answers where the split is judged by answers."""
        if split == "train":
            for number, (place, item) in enumerate(_read_array(self.examples)):
                yield place, Query(str(number), check_text(place, "query", item.get("question")))
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
    """Stream the rows of a tab-separated table with CSV's quotes; each line is a row."""
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
    """The answers that are not blank. The text that is parsed is short: csv allows 131,072 characters a column."""
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
    return read_json_items(path, "item", a="query", form="a JSON array of queries")


def _positives(place: Place, item: dict[str, Any]) -> Iterator[str]:
    contexts = item.get("positive_ctxs")
    if not isinstance(contexts, list) or not all(isinstance(context, dict) for context in contexts):
        raise UserError(f"{place}, positive_ctxs: {shorten(contexts)} is no list of objects; give one, perhaps empty")
    for context in contexts:
        pid = context.get("passage_id", context.get("psg_id"))
        yield check_id(place, "passage_id", str(pid) if isinstance(pid, int) else pid)
