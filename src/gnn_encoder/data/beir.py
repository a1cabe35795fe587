"""Source `beir`: corpus.jsonl, queries.jsonl and qrels/{train,dev,test}.tsv, each plain or .gz.

This is the format of Thakur et al. 2021 (https://github.com/beir-cellar/beir), and the one for a user's own data.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.tables import SPLITS
from gnn_encoder.data.lines import check_folder, find, read_json_lines, read_judged, require
from gnn_encoder.data.rows import Passage, Place, Query, Source, check_given, check_id, check_string, check_text


def open_beir(folder: Path) -> Source:
    """A folder in BEIR's format."""
    check_folder(folder, "corpus.jsonl")
    corpus, texts = require(folder, "corpus.jsonl"), require(folder, "queries.jsonl")
    found = {split: find(folder, f"qrels/{split}.tsv") for split in SPLITS}
    if found["train"] is None:
        cure = "add judged training queries, without which nothing can be trained, or correct data.path"
        raise UserError(f"{folder / 'qrels/train.tsv'}: no such file, nor qrels/train.tsv.gz; {cure}")
    found["test"] = require(folder, "qrels/test.tsv")
    qrels = {split: path for split, path in found.items() if path}
    return Source(
        files=[corpus, texts, *qrels.values()],
        passages=partial(read_json_lines, corpus, passage_of),
        queries=dict.fromkeys(qrels, partial(_queries, texts)),
        judgements={split: partial(read_judged, path) for split, path in qrels.items()},
    )


def passage_of(place: Place, row: dict[str, Any]) -> Passage:
    """A line of a corpus.jsonl; a title may be missing, null or empty, and so may the text beside a title."""
    pid, title, text = check_id(place, "_id", row.get("_id")), row.get("title"), row.get("text")
    title = "" if title is None else check_string(place, "title", title)
    return Passage(pid, title, "" if text is None and title.strip() else check_given(place, "text", text))


def _queries(path: Path) -> Iterator[tuple[Place, Query]]:
    """The queries of all splits: BEIR keeps them in one file."""
    return read_json_lines(path, _query)


def _query(place: Place, row: dict[str, Any]) -> Query:
    return Query(check_id(place, "_id", row.get("_id")), check_text(place, "text", row.get("text")))
