"""BM25 against plain loops over Lucene's formula; ties, absent words and the files that are written."""

import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.pipeline.params import BM25
from gnn_encoder.search import bm25
from gnn_encoder.search.bm25 import BM25Index, word_splitter

from ..texts import write_passages

TEXTS = [
    ("Ash", "The ash is a tree with black buds and grey bark"),
    ("", "Black ash, white ash, mountain ash"),
    ("Beech", "A tree with smooth grey bark"),
    ("", "of the and"),
    ("Beech", "A tree with smooth grey bark"),
    ("Yew", "Dark needles, red berries; longbows were made of yew wood"),
]
QUERIES = ["Which ash has black buds?", "grey bark of a tree, grey", "Longbows: YEW wood", "the and", "xylophone yew"]
SECTION = BM25(depth=5, stop_words="english", stemmer=None)
STOP_WORDS = {"the", "is", "a", "with", "and", "of"}  # of Lucene's list, those that occur below


def build(folder: Path, texts: list[tuple[str, str]], section: BM25 = SECTION) -> BM25Index:
    """The index of some titles and texts, as it is opened again."""
    index = BM25Index.build(write_passages(folder / "passages.parquet", *map(list, zip(*texts, strict=True))), section)
    index.save(folder / "index")
    return index


def words(text: str) -> list[str]:
    return [word for word in re.findall(r"\w\w+", text.lower()) if word not in STOP_WORDS]


def oracle(query: str, k1: float = 0.9, b: float = 0.4) -> np.ndarray:
    documents = [words(f"{title} {text}") for title, text in TEXTS]
    average, scores = sum(map(len, documents)) / len(documents), np.zeros(len(documents))
    for word in words(query):
        containing = sum(word in document for document in documents)
        idf = math.log(1 + (len(documents) - containing + 0.5) / (containing + 0.5))
        for i, document in enumerate(documents):
            frequency = document.count(word)
            scores[i] += idf * frequency / (frequency + k1 * (1 - b + b * len(document) / average))
    return scores


@pytest.mark.parametrize("block", [2, 2**20])
def test_scores_equal_plain_loops_and_an_index_on_disk_finds_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(bm25, "BLOCK", block)
    built, opened = build(tmp_path, TEXTS), BM25Index.open(tmp_path / "index")
    assert isinstance(opened.index.scores["data"], np.memmap) and opened.passages == len(TEXTS)
    for index in (built, opened):
        for query, rows, scores in zip(QUERIES, *index.search(QUERIES, depth=6), strict=True):
            expected = oracle(query)
            order = sorted(np.flatnonzero(expected).tolist(), key=lambda i: (-round(expected[i], 9), i))
            assert rows.tolist() == order + [-1] * (6 - len(order))
            np.testing.assert_allclose(scores, [*expected[order], *[0] * (6 - len(order))], rtol=1e-6)


@pytest.mark.parametrize("depth", [1, 5, 60])
def test_scores_are_sums_in_the_order_of_the_query(tmp_path: Path, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit and on all cores, of words by Zipf's law, with ties and words that come twice."""
    monkeypatch.setattr("gnn_encoder.search.bm25.FEWEST", 1)
    generator = np.random.default_rng(3)
    sizes = [*generator.integers(3, 9, size=3000), *generator.integers(1, 6, size=60)]
    drawn = [" ".join(f"w{number}" for number in generator.zipf(1.3, size=size) % 300) for size in sizes]
    texts, queries = drawn[:3000], drawn[3000:]
    index = build(tmp_path, [("", text) for text in texts])
    data, indices, ends = (index.index.scores[name] for name in ("data", "indices", "indptr"))
    for query, found, values in zip(queries, *index.search(queries, depth), strict=True):
        expected = np.zeros(len(texts), dtype=np.float32)
        for number in (index.index.vocab_dict.get(word) for word in query.split()):
            if number is not None:
                part = slice(ends[number], ends[number + 1])
                expected[indices[part]] += data[part]
        best = np.lexsort((np.arange(len(texts)), -expected))[:depth]
        best = best[expected[best] > 0]
        assert found.tolist() == [*best.tolist(), *[-1] * (depth - len(best))]
        assert values[: len(best)].tolist() == expected[best].tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Path.unlink, r"vocab\.index\.json: not built yet"),
        (lambda path: path.write_text("{"), r"damaged \(.*make it again"),
    ],
)
def test_a_damaged_index(tmp_path: Path, change: Callable[[Path], object], message: str) -> None:
    build(tmp_path, TEXTS)
    change(tmp_path / "index" / "vocab.index.json")
    with pytest.raises(UserError, match=message) as caught:
        BM25Index.open(tmp_path / "index")
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="no passage has a word besides stop words"):
        build(tmp_path, [("", "of the"), ("", "!")])


WORDS = {
    **{"Halloumi is made of milk": "halloumi made milk", "Cafe\u0301": "café", "İstanbul": "istanbul"},
    **{"ＡＢＣ １２": "abc 12", "co\u00adope\u200erate": "cooperate", "red\u200bäpple": "red äpple"},
    **{"हिन्दी भाषा": "हिन्दी भाषा", "2023年北京": "2023 年北 北京", "ꦲꦏꦱ": "ꦲꦏ ꦏꦱ", "ꀀꀁ ㄅㄆㄇ": "ꀀꀁ ㄅㄆ ㄆㄇ"},
    **{"ไทย": "ไท ทย", "ไท\u200bไทย": "ไท ไท ทย", "ที่นี่": "ที่นี่", "カード": "カー ード", "京": "京"},
}


@pytest.mark.parametrize(("text", "expected"), WORDS.items())
def test_words_of_any_script(text: str, expected: str) -> None:
    assert word_splitter("english", None)(text) == expected.split()


def test_a_query_of_one_character_in_a_script_without_spaces(tmp_path: Path) -> None:
    index = build(tmp_path, [("", "我喜欢喝茶"), ("", "他喜欢咖啡"), ("", "ที่นี่ดี")])
    rows, scores = index.search(["茶?", "喜", "นี่", "喝茶", "茶喜", "茶 tea"], 2)
    assert rows[:4].tolist() == [[0, -1], [0, 1], [2, -1], [0, -1]]
    assert scores[0, 0] == scores[3, 0], "it is in one pair"
    assert (rows[4:] == -1).all(), "a longer query asks for its own words alone"


def test_stop_words_and_stems_of_a_language(tmp_path: Path) -> None:
    section = BM25(depth=5, stop_words="russian", stemmer="russian")
    build(tmp_path, [("", "столицы и города"), ("", "реки")], section)
    rows, _ = BM25Index.open(tmp_path / "index").search(["столица", "и"], 2)
    assert rows.tolist() == [[0, -1], [-1, -1]], "the index knows how its words were cut"
