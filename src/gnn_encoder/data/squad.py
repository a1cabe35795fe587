"""Source `squad`: question answering sets in SQuAD's JSON (Rajpurkar et al. 2016), such as XQuAD and MLQA.

`data.path` is a folder of train.json, test.json and, if there, dev.json, or one file, whose questions are divided by a
hash of their ids; all plain or .gz:

    {"data": [{"title": ..., "paragraphs": [{"context": ..., "qas": [
        {"id": ..., "question": ..., "answers": [{"text": ..., "answer_start": ...}]}]}]}]}

The contexts of all files are the passages, equal ones once; a passage's id is a hash of its text. A question's relevant
passage is its context. Questions without an answer (SQuAD 2.0) are left out.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from gnn_encoder.base.errors import UserError, shorten
from gnn_encoder.base.tables import SPLITS
from gnn_encoder.data.lines import check_folder, find, read_json_items, require
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
    split_of,
    stable_hash,
)

FORM = 'JSON of the form {"data": [articles]}'


Asked = tuple[Place, Query, Judgement | None]  # a question; None: it has no answer
Questions = Callable[[], Iterator[Asked]]


def open_squad(path: Path, *, dev: float, test: float) -> Source:
    """Sets in SQuAD's JSON. Memory: an article, and a hash for each context.

    Args:
        path: `data.path`: a folder, or one file.
        dev, test: as in `split_of`, if it is one file.
    """
    questions: dict[str, Questions]
    if path.is_file():
        files = [path]
        questions = {split: partial(_divided, path, split, dev, test) for split in SPLITS}
    else:
        check_folder(path, "train.json and test.json, or one file")
        sets = {"train": require(path, "train.json"), "dev": find(path, "dev.json"), "test": require(path, "test.json")}
        files = [file for file in sets.values() if file]
        questions = {split: partial(_questions, file) for split, file in sets.items() if file}
    return Source(
        files=files,
        passages=partial(_passages, files),
        queries={split: partial(_queries, read) for split, read in questions.items()},
        judgements={split: partial(_judgements, read) for split, read in questions.items()},
        dropped=partial(_dropped, files),
    )


def _passages(files: list[Path]) -> Iterator[tuple[Place, Passage]]:
    """The contexts of all files, each once, with the title that its first article has."""
    seen: set[str] = set()
    for place, passage, _ in (paragraph for path in files for paragraph in _paragraphs(path)):
        if passage.pid not in seen:
            seen.add(passage.pid)
            yield place, passage


def _queries(read: Questions) -> Iterator[tuple[Place, Query]]:
    """The questions of a split, also those without an answer."""
    return ((place, query) for place, query, _ in read())


def _judgements(read: Questions) -> Iterator[tuple[Place, Judgement]]:
    """The context of each question that has an answer, and where in it the first answer begins."""
    return ((place, judgement) for place, _, judgement in read() if judgement)


def _dropped(files: list[Path]) -> dict[str, int]:
    count = sum(judgement is None for path in files for _, _, judgement in _questions(path))
    return {"questions_without_an_answer": count} if count else {}


def _divided(path: Path, split: str, dev: float, test: float) -> Iterator[Asked]:
    """The questions of one file that are in a split."""
    return (one for one in _questions(path) if split_of(stable_hash(one[1].qid), dev=dev, test=test) == split)


def _paragraphs(path: Path) -> Iterator[tuple[Place, Passage, list[dict[str, Any]]]]:
    """Stream contexts with their questions, an article at a time; in a title, as in Wikipedia's, _ is a blank."""
    for number, (place, article) in enumerate(read_json_items(path, "data.item", a="article", form=FORM)):
        title = article.get("title")
        title = "" if title is None else check_string(place, "title", title).replace("_", " ")
        for inner, paragraph in enumerate(check_objects(place, "paragraphs", article.get("paragraphs"))):
            at = Place(path, f"article {number}, paragraph {inner}")
            context = check_text(at, "context", paragraph.get("context"))
            questions = check_objects(at, "qas", paragraph.get("qas"))
            yield at, Passage(stable_hash(context), title, context), questions


def _questions(path: Path) -> Iterator[Asked]:
    """Stream the questions of a file."""
    for place, passage, questions in _paragraphs(path):
        for number, row in enumerate(questions):
            at = Place(path, f"{place.row}, question {number}")
            query = Query(check_id(at, "id", row.get("id")), check_text(at, "question", row.get("question")))
            start = None if row.get("is_impossible") else _start(at, row.get("answers"), passage.text)
            yield at, query, None if start is None else Judgement(query.qid, passage.pid, 1, at=start)


def _start(place: Place, value: object, context: str) -> int | None:
    """The context's character where the first answer begins, checked; None if there is no answer."""
    answers = check_objects(place, "answers", value)
    if not answers:
        return None
    text, start = check_text(place, "answers, text", answers[0].get("text")), answers[0].get("answer_start")
    if type(start) is not int or start < 0 or not context.startswith(text, start):
        raise UserError(
            f"{place}, answer_start: {shorten(text)} does not stand at character {shorten(start)} of the context; "
            "correct it, counting from 0"
        )
    return start
