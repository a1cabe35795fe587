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

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.tables import PASSAGES, QRELS, QUERIES
from gnn_encoder.data.answers import answered, best_answered

from ..texts import write

E_ACUTE, E_COMBINING = "\u00e9", "e\u0301"  # é as one character and as two
# An answer, a text, whether it is found.
STRINGS = [
    ("oven", "The oven is hot.", True),
    ("art", "He will start the party.", False),
    ("hot oven", "a hot gas oven", False),
    ("", "an oven", False),
    ("strasse", "Straße", False),
    ("οδος", "ΟΔΟΣ", True),  # a final sigma is a form of its own
    (f"caf{E_ACUTE}", f"a caf{E_COMBINING}", True),
    ("office", "the o\ufb03ce", False),
    ("U.S.", "the US army", False),
    ("well known", "a well-known oven", False),  # a hyphen is a token
    ("oven", "ov\u00aden", False),
    ("oven", "hot_oven", True),
    ("北京", "我在北京工作", False),  # a run of signs is one word
    ("हिन्दी", "भाषा हिन्दी है", True),
    ("?", "Why?", True),
]


def test_texts_by_hand(tmp_path: Path) -> None:
    found = own_pairs(tmp_path, [["yeast", answer] for answer, _, _ in STRINGS], [text for _, text, _ in STRINGS])
    assert found == [i for i, (_, _, expected) in enumerate(STRINGS) if expected]
    assert all(literally([answer], text) is expected for answer, text, expected in STRINGS)


def own_pairs(folder: Path, answers: list[list[str]], texts: list[str]) -> list[int]:
    """Which texts hold an answer to the query of their number."""
    pairs = pl.DataFrame({"query": range(len(texts)), "passage": range(len(texts))})
    return answered(pairs, *tables(folder, answers, texts, group=500))["query"].to_list()


def literally(answers: Sequence[str], text: str) -> bool:
    """Character by character with the standard library's Unicode data, then every place in the list of tokens."""
    found = tokens(text)
    wanted = [one for one in map(tokens, answers) if one]
    return any(found[i : i + len(one)] == one for one in wanted for i in range(len(found) - len(one) + 1))


def tokens(text: str) -> list[str]:
    words: list[str] = []
    inside = False
    for character in unicodedata.normalize("NFD", text):
        category = unicodedata.category(character)[0]
        if category in "LNM" and inside:
            words[-1] += character
        elif category not in "ZC":
            words.append(character)
        inside = category in "LNM"
    return [word.lower() for word in words]


def test_random_texts_equal_the_literal_version(tmp_path: Path) -> None:
    generator = random.Random(0)
    alphabet = "aAbB12ΣσςİıßéÉe\u0301\u0308 ..,-'’_\n\t\u00a0\u200b北京ー🍞👩‍🍳ﬃ²"
    texts = ["".join(generator.choices(alphabet, k=generator.randint(0, 40))) for _ in range(3000)]
    starts = [generator.randint(0, len(text)) for text in texts]
    parts = [text[start : start + generator.randint(0, 6)] for text, start in zip(texts, starts, strict=True)]
    answers = [[part.swapcase(), "".join(generator.choices(alphabet, k=2))] for part in parts]
    expected = [i for i, text in enumerate(texts) if literally(answers[i], text)]
    assert own_pairs(tmp_path, answers, texts) == expected and 500 < len(expected) < 2500


# --- pairs of rows ----------------------------------------------------------------------------------------------------

TEXTS = "An oven./A pan/Salt, a pan/nothing/a hot oven/a hot gas oven//salted/OVEN SALT/end".split("/")
Answers = Sequence[list[str] | None]


def tables(folder: Path, answers: Answers, texts: list[str] = TEXTS, group: int = 3) -> list[Path]:
    """Queries with these answers, and passages whose titles do not count."""
    queries, passages = folder / "dev.parquet", folder / "passages.parquet"
    write(queries, QUERIES, (f"q{i}" for i in range(len(answers))), ["why?"] * len(answers), answers)
    columns = [[f"p{i}" for i in range(len(texts))], ["oven"] * len(texts), texts]
    pq.write_table(pa.table(columns, schema=PASSAGES), passages, row_group_size=group)
    return [queries, passages]


def every_pair(n_queries: int, n_passages: int) -> pl.DataFrame:
    query, passage = np.divmod(np.random.default_rng(0).permutation(n_queries * n_passages), n_passages)
    columns = {"query": query.astype(np.int32), "passage": passage.astype(np.int32)}
    return pl.DataFrame(columns).with_row_index("place")


def test_pairs_by_hand(tmp_path: Path) -> None:
    strings = tables(tmp_path, [["Oven"], ["pan", "salt"], [], None, [""], ["hot oven"]])
    found = answered(every_pair(6, 10), *strings)
    expected = {(0, 0), (0, 4), (0, 5), (0, 8), (1, 1), (1, 2), (1, 8), (5, 4)}
    assert set(found.select("query", "passage").rows()) == expected
    assert found["place"].is_sorted() and found.columns == ["place", "query", "passage"]


def test_the_positive_of_a_query_is_the_first_passage_of_bm25_with_an_answer(tmp_path: Path) -> None:
    def bm25(**rankings: str) -> pl.DataFrame:
        rows = [(qid, pid, rank) for qid, pids in rankings.items() for rank, pid in enumerate(pids.split(), 1)]
        return pl.DataFrame(rows, schema={"qid": pl.String, "pid": pl.String, "rank": pl.Int32}, orient="row")

    texts = ["nothing", "a hot oven", "the oven", "a pan", "oven and pan"]
    of = tables(tmp_path, [["oven"], ["pan", "salt"], ["gas"], []], texts)
    table = best_answered(bm25(q1="p1 p4 p3", q0="p0 p2 p1", q2="p0 p1", q3="p1"), *of)
    assert table.rows() == [("q0", "p2", 1), ("q1", "p4", 1)] and table.to_arrow().cast(QRELS).num_rows == 2
    with pytest.raises(UserError, match="dev.parquet: BM25's first 100 passages hold an answer of no query; "):
        best_answered(bm25(q0="p0", q2="p1"), *of)
