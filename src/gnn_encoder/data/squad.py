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
from typing import Any, NamedTuple

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.records import SPLITS
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
    shorten,
    split_of,
    stable_hash,
)

FORM = 'JSON of the form {"data": [articles]}'


class Paragraph(NamedTuple):
    """A context and its questions."""

    place: Place
    title: str
    context: str
    questions: list[dict[str, Any]]


class Question(NamedTuple):
    """A question of a context."""

    place: Place
    qid: str
    text: str
    context: str
    start: int | None  # the context's character where the first answer begins; None: there is no answer


Questions = Callable[[], Iterator[Question]]


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
    for paragraph in (paragraph for path in files for paragraph in _paragraphs(path)):
        pid = stable_hash(paragraph.context)
        if pid not in seen:
            seen.add(pid)
            yield paragraph.place, Passage(pid, paragraph.title, paragraph.context)


def _queries(read: Questions) -> Iterator[tuple[Place, Query]]:
    """The questions of a split, also those without an answer."""
    return ((question.place, Query(question.qid, question.text)) for question in read())


def _judgements(read: Questions) -> Iterator[tuple[Place, Judgement]]:
    """The context of each question that has an answer, and where in it the first answer begins."""
    for question in read():
        if question.start is not None:
            yield question.place, Judgement(question.qid, stable_hash(question.context), 1, at=question.start)


def _dropped(files: list[Path]) -> dict[str, int]:
    count = sum(question.start is None for path in files for question in _questions(path))
    return {"questions_without_an_answer": count} if count else {}


def _divided(path: Path, split: str, dev: float, test: float) -> Iterator[Question]:
    """The questions of one file that are in a split."""
    return (found for found in _questions(path) if split_of(stable_hash(found.qid), dev=dev, test=test) == split)


def _paragraphs(path: Path) -> Iterator[Paragraph]:
    """Stream the paragraphs of a file, an article at a time. In titles, _ stands for a blank, as in Wikipedia's."""
    for number, (place, article) in enumerate(read_json_items(path, "data.item", a="article", form=FORM)):
        title = article.get("title")
        title = "" if title is None else check_string(place, "title", title).replace("_", " ")
        for inner, paragraph in enumerate(check_objects(place, "paragraphs", article.get("paragraphs"))):
            at = Place(path, f"article {number}, paragraph {inner}")
            context = check_text(at, "context", paragraph.get("context"))
            yield Paragraph(at, title, context, check_objects(at, "qas", paragraph.get("qas")))


def _questions(path: Path) -> Iterator[Question]:
    """Stream the questions of a file."""
    for paragraph in _paragraphs(path):
        for number, row in enumerate(paragraph.questions):
            at = Place(path, f"{paragraph.place.row}, question {number}")
            qid, text = check_id(at, "id", row.get("id")), check_text(at, "question", row.get("question"))
            start = None if row.get("is_impossible") else _start(at, row.get("answers"), paragraph.context)
            yield Question(at, qid, text, paragraph.context, start)


def _start(place: Place, value: object, context: str) -> int | None:
    """Where the first answer begins, after a check that it stands there."""
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
