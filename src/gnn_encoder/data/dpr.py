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
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from gnn_encoder.base.errors import UserError, shorten
from gnn_encoder.data.lines import check_folder, find, read_columns, read_json_items, require
from gnn_encoder.data.rows import (
    Judgement,
    Passage,
    Place,
    Query,
    Source,
    check_id,
    check_objects,
    check_string,
    check_text,
    checked,
)

MOST = 131_072  # characters of the answers to a query
HEADER = ["id", "text", "title"]
PASSAGES = ("psgs_w100.tsv", "wikipedia_split/psgs_w100.tsv")
EXAMPLES = ("biencoder-{0}-train.json", "retriever/{0}-train.json")
ANSWERED = ("{0}-{1}.qa.csv", "{0}-{1}.csv", "retriever/qas/{0}-{1}.csv")


def open_dpr(folder: Path, name: str) -> Source:
    """A folder of DPR's files."""
    check_folder(folder, PASSAGES[0])
    collection = require(folder, *PASSAGES)
    examples = require(folder, *(pattern.format(name) for pattern in EXAMPLES))
    dev, test = ([pattern.format(name, split) for pattern in ANSWERED] for split in ("dev", "test"))
    tables = {"dev": find(folder, *dev), "test": require(folder, *test)}
    answered = {split: path for split, path in tables.items() if path}
    return Source(
        files=[collection, examples, *answered.values()],
        passages=partial(_passages, collection),
        queries={"train": partial(_queries, examples)}
        | {split: partial(_answered, path) for split, path in answered.items()},
        judgements={"train": partial(_judgements, examples)},
    )


def _passages(path: Path) -> Iterator[tuple[Place, Passage]]:
    """All passages; the header may be left out."""
    rows = read_columns(path, HEADER, _passage, quoted=True)
    return ((place, passage) for place, passage in rows if passage)


def _passage(place: Place, columns: list[str]) -> Passage | None:
    pid, text, title = columns
    return None if columns == HEADER and place.row == "line 1" else Passage(check_id(place, "id", pid), title, text)


def _queries(path: Path) -> Iterator[tuple[Place, Query]]:
    """The training queries."""
    texts = checked(_items(path), lambda place, item: check_text(place, "query", item.get("question")))
    return ((place, Query(str(number), text)) for number, (place, text) in enumerate(texts))


def _judgements(path: Path) -> Iterator[tuple[Place, Judgement]]:
    """Each positive passage of the training queries once, with grade 1."""
    for number, (place, pids) in enumerate(checked(_items(path), _positives)):
        for pid in pids:
            yield place, Judgement(str(number), pid, 1)


def _positives(place: Place, item: dict[str, Any]) -> list[str]:
    contexts = check_objects(place, "positive_ctxs", item.get("positive_ctxs"))
    pids = (context.get("passage_id", context.get("psg_id")) for context in contexts)
    return list(dict.fromkeys(check_id(place, "passage_id", str(p) if isinstance(p, int) else p) for p in pids))


def _answered(path: Path) -> Iterator[tuple[Place, Query]]:
    """The queries of a split that is judged by answers."""
    rows = read_columns(path, ["query", "answers"], _asked, quoted=True)
    return ((place, query._replace(qid=str(number))) for number, (place, query) in enumerate(rows))


def _asked(place: Place, row: list[str]) -> Query:
    text, answers = row
    return Query("", check_text(place, "query", text), _answers(place, answers))


def _answers(place: Place, text: str) -> tuple[str, ...]:
    """The answers that are not blank. The text that is parsed is short, since Python's parser takes much memory."""
    values: object = None
    with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        values = ast.literal_eval(text[:MOST])
    checked = [check_string(place, "answers", value) for value in values] if isinstance(values, list) else []
    found = tuple(answer for answer in checked if answer.strip())
    if not found:
        raise UserError(f"{place}, answers: {shorten(text)} is no Python list of answers; write ['answer', ...]")
    return found


def _items(path: Path) -> Iterator[tuple[Place, dict[str, Any]]]:
    return read_json_items(path, "item", a="query", form="a JSON array of queries")
