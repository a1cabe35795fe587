"""Answers in texts by DPR's rules, against a slow version that follows them literally, and the pairs that hold one."""

import random
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import regex

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.tables import PASSAGES, QRELS, QUERIES
from gnn_encoder.data import answers as module
from gnn_encoder.data.answers import answered, best_answered, finder, judged_by_answers, prepared

from ..texts import write

E_ACUTE, E_COMBINING = "\u00e9", "e\u0301"  # é as one character and as two
# What is tested, answers, text, whether it is found.
STRINGS = [
    ("a word", ["oven"], "The oven is hot.", True),
    ("part of a word", ["art"], "He will start the party.", False),
    ("a word in between", ["hot oven"], "a hot gas oven", False),
    ("no answers", [], "an oven", False),
    ("empty answer", [""], "an oven", False),
    ("sharp s is not ss", ["strasse"], "Straße", False),
    ("Greek final sigma is a form of its own", ["οδος"], "ΟΔΟΣ", True),
    ("accent composed in the answer", [f"caf{E_ACUTE}"], f"a caf{E_COMBINING}", True),
    ("ligature is not its letters", ["office"], "the o\ufb03ce", False),
    ("full stop in the answer has to be there", ["U.S."], "the US army", False),
    ("hyphen is a token", ["well known"], "a well-known oven", False),
    ("soft hyphen cuts a word", ["oven"], "ov\u00aden", False),
    ("underscore cuts a word", ["oven"], "hot_oven", True),
    ("Chinese run of signs is one word", ["北京"], "我在北京工作", False),
    ("Devanagari vowel signs are of the word", ["हिन्दी"], "भाषा हिन्दी है", True),
    ("emoji with a skin tone has one token more", ["👍🏽"], "👍", False),
    ("punctuation alone", ["?"], "Why?", True),
    ("a very long answer", ["oven " * 5000], "x " + "oven " * 5000, True),
]

EXPRESSIONS = [
    ("line starts", [r"^oven"], "hot\noven", True),
    ("full stop is not a line end", ["hot.oven"], "hot\noven", False),
    ("two expressions", ["gas", "ov[aeiou]n"], "an oven", True),
    ("accents are taken apart in both", [f"caf{E_ACUTE}"], f"caf{E_COMBINING}", True),
    ("letters with accents are two characters", ["caf.$"], f"caf{E_ACUTE}", False),
    ("words in Unicode", [r"^\w+$"], "北京", True),
    ("many steps", [r"(\w+\s?)+!"], "a " * 200, False),
]


def test_texts_by_hand() -> None:
    for what, answers, text, expected in STRINGS:
        assert finder(answers, "string")(prepared(text, "string")) is literally(answers, text) is expected, what
    for what, answers, text, expected in EXPRESSIONS:
        assert finder(answers, "regex")(prepared(text, "regex")) is expected, what


def literally(answers: Sequence[str], text: str) -> bool:
    """Character by character with the standard library's Unicode data, then every place in the list of tokens."""
    found = tokens(text)
    wanted = [tokens(answer) for answer in answers]
    return any(
        answer and found[i : i + len(answer)] == answer
        for answer in wanted
        for i in range(len(found) - len(answer) + 1)
    )


def tokens(text: str) -> list[str]:
    words: list[str] = []
    inside = False
    for character in unicodedata.normalize("NFD", text):
        category = unicodedata.category(character)[0]
        if category in "LNM":
            if inside:
                words[-1] += character
            else:
                words.append(character)
        elif category not in "ZC":
            words.append(character)
        inside = category in "LNM"
    return [word.lower() for word in words]


def test_random_texts_equal_the_literal_version() -> None:
    generator = random.Random(0)
    alphabet = "aAbB12ΣσςİıßéÉe\u0301\u0308 ..,-'’_\n\t\u00a0\u200b北京ー🍞👩‍🍳ﬃ²"
    hits = 0
    for _ in range(3000):
        text = "".join(generator.choices(alphabet, k=generator.randint(0, 40)))
        start = generator.randint(0, len(text))
        part = text[start : start + generator.randint(0, 6)]  # of the text, so that many are found
        answers = [part.swapcase(), "".join(generator.choices(alphabet, k=2))]
        found = finder(answers, "string")(prepared(text, "string"))
        assert found == literally(answers, text), (answers, text)
        assert prepared(text, "string").split(" ")[1:-1] == (tokens(text) or [""])
        hits += found
    assert 500 < hits < 2500


@pytest.mark.parametrize("answer", ["(", "[z-a]", "*a", "a{2,1}", r"\p{Nothing}", "(" * 3000 + ")" * 3000])
def test_what_is_no_expression(answer: str) -> None:
    with pytest.raises(UserError, match="is no regular expression"):
        finder(["fine", answer], "regex")


def test_an_expression_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnn_encoder.data.answers.SECONDS", 0.05)
    text = "a" * 80 + "!"
    with pytest.raises(TimeoutError):
        regex.search("(a|aa)+$", text, timeout=0.05)
    with pytest.raises(UserError, match=r"'\(a\|aa\)\+\$' searched one passage for more than 0.05 s"):
        finder(["(a|aa)+$"], "regex")(text)


# --- pairs of rows ----------------------------------------------------------------------------------------------------

WORDS = ["oven", "pan", "salt", "yeast", "flour", "steam", "dough"]


def write_queries(path: Path, answers: list[list[str] | None]) -> Path:
    return write(path, QUERIES, (f"q{i}" for i in range(len(answers))), ["why?"] * len(answers), answers)


def write_passages(path: Path, texts: list[str], row_group: int = 3) -> Path:
    rows = {"pid": [f"p{i}" for i in range(len(texts))], "title": ["oven"] * len(texts), "text": texts}
    pq.write_table(pa.table(rows, schema=PASSAGES), path, row_group_size=row_group)
    return path


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    return write_queries(tmp_path / "test.parquet", [["Oven"], ["pan", "salt"], [], None, [""], ["hot oven"]])


@pytest.fixture
def passages(tmp_path: Path) -> Path:
    texts = ["An oven.", "A pan", "Salt, a pan", "nothing", "a hot oven", "a hot gas oven", "", "salted", "OVEN SALT"]
    return write_passages(tmp_path / "passages.parquet", [*texts, "the last"])


def every_pair(n_queries: int, n_passages: int) -> pl.DataFrame:
    query, passage = np.divmod(np.random.default_rng(0).permutation(n_queries * n_passages), n_passages)
    columns = {"query": query.astype(np.int32), "passage": passage.astype(np.int32)}
    return pl.DataFrame(columns).with_row_index("place")


def test_by_hand(queries: Path, passages: Path) -> None:
    pairs = every_pair(6, 10)
    found = answered(pairs, queries, passages, "string")
    expected = {(0, 0), (0, 4), (0, 5), (0, 8), (1, 1), (1, 2), (1, 8), (5, 4)}
    assert set(found.select("query", "passage").rows()) == expected, "titles do not count"
    assert found["place"].is_sorted() and found.columns == ["place", "query", "passage"]


def test_several_processes_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(1)
    texts = [" ".join(generator.choice(WORDS, 3)) for _ in range(40)]
    answers = [[" ".join(generator.choice(WORDS, 2))] for _ in range(30)]
    queries = write_queries(tmp_path / "test.parquet", answers)
    passages = write_passages(tmp_path / "passages.parquet", texts, row_group=7)
    alone = answered(every_pair(30, 40), queries, passages, "string")
    finders = [finder(one, "string") for one in answers]
    expected = sum(found(prepared(text, "string")) for found in finders for text in texts)
    assert len(alone) == expected > 10
    monkeypatch.setattr(module, "PAIRS_A_PROCESS", 600)
    monkeypatch.setattr(module, "cores", lambda: 2)
    monkeypatch.setattr(module, "_opened", None)  # of this process: the others import the module anew
    assert answered(every_pair(30, 40), queries, passages, "string").equals(alone)


def test_expressions_in_tables(tmp_path: Path, passages: Path) -> None:
    queries = write_queries(tmp_path / "dev.parquet", [["ov.n$"], [r"^salt\w"]])
    found = answered(every_pair(2, 10), queries, passages, "regex")
    assert set(found.select("query", "passage").rows()) == {(0, 4), (0, 5), (1, 7)}
    queries = write_queries(tmp_path / "bad.parquet", [["fine"], ["("]])
    with pytest.raises(UserError, match=r"bad.parquet, query 'q1', answers: '\(' is no regular expression"):
        answered(every_pair(1, 10), queries, passages, "regex")


@pytest.mark.parametrize(
    ("answers", "expected"),
    [([[], []], False), ([[], ["x"]], True), ([None, None], False), ([None, [""]], True), ([], False)],
)
def test_judged_by_answers(tmp_path: Path, answers: list[list[str] | None], expected: bool) -> None:
    assert judged_by_answers(write_queries(tmp_path / "test.parquet", answers)) is expected


# --- the positive of a query that has only answers: BM25's first passage that holds one ------------------------------


def bm25(rankings: dict[str, list[str]]) -> pl.DataFrame:
    rows = [(qid, pid, rank) for qid, pids in rankings.items() for rank, pid in enumerate(pids, 1)]
    return pl.DataFrame(rows, schema={"qid": pl.String, "pid": pl.String, "rank": pl.Int32}, orient="row")


def test_the_first_one_in_the_run(tmp_path: Path) -> None:
    answers: list[list[str] | None] = [["oven"], ["pan", "salt"], ["gas"], []]
    texts = ["nothing", "a hot oven", "the oven", "a pan", "oven and pan"]
    tables = write_queries(tmp_path / "dev.parquet", answers), write_passages(tmp_path / "passages.parquet", texts)
    run = bm25({"q1": ["p1", "p4", "p3"], "q0": ["p0", "p2", "p1"], "q2": ["p0", "p1"], "q3": ["p1"]})
    table = best_answered(run, *tables, "string")
    assert table.rows() == [("q0", "p2", 1), ("q1", "p4", 1)] and table.to_arrow().cast(QRELS).num_rows == 2
    with pytest.raises(UserError, match="dev.parquet: BM25's first 100 passages hold an answer of no query; "):
        best_answered(bm25({"q0": ["p0"], "q2": ["p1"]}), *tables, "string")
