"""Source `squad`: question answering sets in SQuAD's JSON (Rajpurkar et al. 2016), such as XQuAD and MLQA.

`data.path` is a folder of train.json, test.json and, if there, dev.json, or one file, whose questions are divided by a
hash of their ids; all plain or .gz:

    {"data": [{"title": ..., "paragraphs": [{"context": ..., "qas": [
        {"id": ..., "question": ..., "answers": [{"text": ..., "answer_start": ...}]}]}]}]}

The contexts of all files are the passages, equal ones once; a passage's id is a hash of its text. A question's relevant
passage is its context. Questions without an answer (SQuAD 2.0) are left out.
"""

from collections.abc import Iterator
from functools import cached_property
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
    check_id,
    check_string,
    check_text,
    shorten,
    split_of,
    stable_hash,
)

FORM = 'JSON of the form {"data": [articles]}'


class Paragraph(NamedTuple):
    """A context and its questions."""

    title: str
    context: str
    questions: list[Any]


class Question(NamedTuple):
    """A question of a context."""

    qid: str
    text: str
    start: int | None  # the context's character where the first answer begins; None: there is no answer


class Squad:
    """Reader of sets in SQuAD's JSON.

    Args:
        path: `data.path`: a folder, or one file.
        dev: if it is one file, the share of its questions outside test that is dev.
        test: if it is one file, the share of its questions that is test.

    Memory: an article, and a hash for each context.

    Raises:
        UserError: the folder, or a file that it must have, is missing.
    """

    answered: tuple[str, ...] = ()
    shared_qids = True

    def __init__(self, path: Path, *, dev: float, test: float) -> None:
        self._dev, self._test = dev, test
        self._whole = path.is_file()
        if self._whole:
            self.sets = dict.fromkeys(SPLITS, path)
        else:
            check_folder(path, "train.json and test.json, or one file")
            found = {split: find(path, f"{split}.json") for split in SPLITS}
            found |= {split: require(path, f"{split}.json") for split in ("train", "test")}
            self.sets = {split: file for split, file in found.items() if file}
        self.splits = tuple(self.sets)

    def files(self) -> list[Path]:
        """All files that are read, for the fingerprint."""
        return list(dict.fromkeys(self.sets.values()))

    @cached_property
    def dropped(self) -> dict[str, int]:
        """How many questions have no answer."""
        questions = (question for path in self.files() for _, question, _ in _questions(path))
        count = sum(question.start is None for question in questions)
        return {"questions_without_an_answer": count} if count else {}

    def passages(self) -> Iterator[tuple[Place, Passage]]:
        """The contexts of all files, each once, with the title that its first article has."""
        seen: set[str] = set()
        for path in self.files():
            for place, paragraph in _paragraphs(path):
                pid = stable_hash(paragraph.context)
                if pid not in seen:
                    seen.add(pid)
                    yield place, Passage(pid, paragraph.title, paragraph.context)

    def queries(self, split: str) -> Iterator[tuple[Place, Query]]:
        """The questions of a split, also those without an answer."""
        for place, question, _ in self._of(split):
            yield place, Query(question.qid, question.text)

    def judgements(self, split: str) -> Iterator[tuple[Place, Judgement]]:
        """The context of each question that has an answer, and where in it the first answer begins."""
        for place, question, context in self._of(split):
            if question.start is not None:
                yield place, Judgement(question.qid, stable_hash(context), 1, at=question.start)

    def _of(self, split: str) -> Iterator[tuple[Place, Question, str]]:
        for place, question, context in _questions(self.sets[split]):
            if not self._whole or split_of(stable_hash(question.qid), dev=self._dev, test=self._test) == split:
                yield place, question, context


def _paragraphs(path: Path) -> Iterator[tuple[Place, Paragraph]]:
    """Stream the paragraphs of a file, an article at a time. In titles, _ stands for a blank, as in Wikipedia's."""
    for number, (place, article) in enumerate(read_json_items(path, "data.item", a="article", form=FORM)):
        title = article.get("title")
        title = "" if title is None else check_string(place, "title", title).replace("_", " ")
        for inner, paragraph in enumerate(_objects(place, "paragraphs", article.get("paragraphs"))):
            at = Place(path, f"article {number}, paragraph {inner}")
            context = check_text(at, "context", paragraph.get("context"))
            yield at, Paragraph(title, context, _objects(at, "qas", paragraph.get("qas")))


def _questions(path: Path) -> Iterator[tuple[Place, Question, str]]:
    """Stream the questions of a file, each with its context."""
    for place, paragraph in _paragraphs(path):
        for number, row in enumerate(paragraph.questions):
            at = Place(path, f"{place.row}, question {number}")
            question = Question(
                qid=check_id(at, "id", row.get("id")),
                text=check_text(at, "question", row.get("question")),
                start=None if row.get("is_impossible") else _start(at, row.get("answers"), paragraph.context),
            )
            yield at, question, paragraph.context


def _start(place: Place, value: object, context: str) -> int | None:
    """Where the first answer begins, after a check that it stands there."""
    answers = _objects(place, "answers", value)
    if not answers:
        return None
    text = check_text(place, "answers, text", answers[0].get("text"))
    start = answers[0].get("answer_start")
    if start is None:
        raise UserError(
            f"{place}, answer_start: missing; add the character of the context where {shorten(text)} begins"
        )
    if type(start) is not int or start < 0 or not context.startswith(text, start):
        raise UserError(
            f"{place}, answer_start: {shorten(text)} does not stand at character {shorten(start)} of the context; "
            "correct it, counting from 0"
        )
    return start


def _objects(place: Place, column: str, value: object) -> list[Any]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise UserError(f"{place}, {column}: {shorten(value)} is no list of objects; give one, perhaps empty")
    return value
