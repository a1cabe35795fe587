"""Texts cut in prepare: the passages, and which of them a document's judgement is for."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from gnn_encoder.base.words import words
from gnn_encoder.data.cutting import cut, cut_source, holding, rarity
from gnn_encoder.data.rows import Judgement, Passage, Place, Query, Source
from gnn_encoder.pipeline.params import Cutting

Prepared = Callable[..., Path]
Rows = Callable[[Path], list[tuple[object, ...]]]
PLACE = Place(Path("memory"), "row")
DOCUMENTS = {
    # Three passages of four words. `the` is in all documents, `moss` in two, `fern` in one.
    "d1": "The moss is green. The fern is green. The sand is dry.",
    "d2": "The moss is old.",
    "d3": "The the the the.",
}
TEXTS = {"train": "Which moss and fern?", "test": "the sand"}


def memory(*judged: tuple[str, Judgement], documents: dict[str, str] = DOCUMENTS) -> Source:
    """A source of literal rows."""
    return Source(
        files=[],
        passages=lambda: ((PLACE, Passage(pid, "Plants", text)) for pid, text in documents.items()),
        queries={split: lambda text=text: iter([(PLACE, Query("q", text))]) for split, text in TEXTS.items()},
        judgements={s: lambda s=s: ((PLACE, judgement) for of, judgement in judged if of == s) for s in TEXTS},
    )


def chosen(source: Source, words: int = 4) -> dict[str, list[tuple[str, str, int]]]:
    found = cut_source(source, Cutting(words=words, overlap=0))
    return {split: [judgement[:3] for _, judgement in read()] for split, read in found.judgements.items()}


@pytest.mark.parametrize(
    ("text", "words", "overlap", "blocks"),
    [
        ("  one two\nthree ", 3, 2, ["one two\nthree"]),
        ("a b c d e", 2, 0, ["a b", "c d", "e"]),
        ("a b c d e", 3, 1, ["a b c", "c d e"]),
        ("a b c d e f", 3, 2, ["a b c", "b c d", "c d e", "d e f"]),
        ("今天很好。 fine", 4, 0, ["今天很好", "。 fine"]),
        ("ที่นี่ดี ok", 2, 0, ["ที่นี่", "ดี ok"]),  # characters stay with their marks
    ],
)
def test_blocks(text: str, words: int, overlap: int, blocks: list[str]) -> None:
    assert [text[start:end] for start, end in cut(text, Cutting(words=words, overlap=overlap))] == blocks


def test_passages() -> None:
    found = [row for _, row in cut_source(memory(), Cutting(words=4, overlap=0)).passages()]
    assert found == [
        ("d1#0", "Plants", "The moss is green."),
        ("d1#1", "Plants", "The fern is green."),
        ("d1#2", "Plants", "The sand is dry."),
        ("d2#0", "Plants", "The moss is old."),
        ("d3#0", "Plants", "The the the the."),
    ]


def test_a_judgement_is_for_the_passage_with_the_rarer_words() -> None:
    # fern weighs ln(4/2), moss ln(4/3), the nothing: `fern` decides for passage 1; the other split has its own query q.
    judged = [("train", Judgement("q", "d1", 2)), ("test", Judgement("q", "d1", 1)), ("train", Judgement("q", "d2", 0))]
    assert chosen(memory(*judged)) == {"train": [("q", "d1#1", 2), ("q", "d2#0", 0)], "test": [("q", "d1#2", 1)]}


def test_of_equal_passages_the_first() -> None:
    source = memory(("train", Judgement("q", "d4", 1)), documents={"d4": "Salt. Salt. Salt."})
    assert chosen(source, words=1)["train"] == [("q", "d4#0", 1)]


def test_where_the_answer_is_known_words_do_not_count() -> None:
    at = DOCUMENTS["d1"].index("dry")
    assert chosen(memory(("train", Judgement("q", "d1", 1, at=at))))["train"] == [("q", "d1#2", 1)]


def test_counts_stay_and_unknown_ids_too() -> None:
    source = cut_source(memory(("train", Judgement("q", "d9", 1, logged=3))), Cutting(words=4, overlap=0))
    assert [judgement for _, judgement in source.judgements["train"]()] == [Judgement("q", "d9", 1, logged=3)]


def test_holding() -> None:
    pieces = [(0, 10), (6, 20), (20, 30)]
    assert [holding(pieces, at) for at in (0, 5, 8, 9, 19, 20)] == [0, 0, 1, 1, 1, 2]


def test_weights_against_their_definition() -> None:
    asked, texts = {"which", "moss", "and", "fern"}, [set(words(text)) for text in DOCUMENTS.values()]
    expected = {w: pytest.approx(math.log(4 / (sum(w in t for t in texts) + 1))) for w in asked}
    assert rarity(memory(), asked) == expected


def test_any_source(tmp_path: Path, prepared: Prepared, rows: Rows, refused: Callable[..., None]) -> None:
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": pid, "text": text}) + "\n" for pid, text in DOCUMENTS.items())
    )
    queries = {"q1": "green fern", "q2": "dry sand", "q3": "old moss"}
    (folder / "queries.jsonl").write_text(
        "".join(json.dumps({"_id": qid, "text": text}) + "\n" for qid, text in queries.items())
    )
    (folder / "qrels" / "train.tsv").write_text("q1\td1\t1\nq3\td2\t1\n")
    (folder / "qrels" / "test.tsv").write_text("q2\td1\t2\nq2\td3\t0\n")
    keys = {"source": "beir", "path": str(folder), "passages": {"words": 4, "overlap": 0}}
    target = prepared(**keys, dev_fraction=0.5)
    assert rows(target / "qrels" / "test.parquet") == [("q2", "d1#2", 2), ("q2", "d3#0", 0)]
    judged = rows(target / "qrels" / "train.parquet") + rows(target / "qrels" / "dev.parquet")
    assert sorted(judged) == [("q1", "d1#1", 1), ("q3", "d2#0", 1)]
    statistics = json.loads((target / "statistics.json").read_text())
    assert (statistics["passages"]["passages"], statistics["passages"]["documents"]) == (5, 3)
    with (folder / "qrels" / "test.tsv").open("a") as file:
        file.write("q2\td9\t1\n")
    refused("test.tsv, line 3: passage 'd9' is not in the corpus; add it or remove the judgement", **keys)
