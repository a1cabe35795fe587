"""Texts cut at the ends of sentences: cases worked out by hand, and the rules on random texts."""

import random
from itertools import pairwise

import pytest

from gnn_encoder.data.cutting import WORD, _ends, cut

TEXT = "One two three. Four five. Six seven eight nine. Ten eleven."  # sentences of 3, 2, 4 and 2 words


def pieces(text: str, words: int, overlap: int = 0) -> list[str]:
    return [text[start:end] for start, end in cut(text, words, overlap)]


def test_a_short_text_is_one_piece() -> None:
    assert pieces(f"  {TEXT}\n", 11) == [TEXT]


def test_pieces_end_with_sentences() -> None:
    assert pieces(TEXT, 6) == ["One two three. Four five.", "Six seven eight nine. Ten eleven."]
    assert pieces(TEXT, 5) == ["One two three. Four five.", "Six seven eight nine.", "Ten eleven."]


def test_overlap_is_of_whole_sentences() -> None:
    assert pieces(TEXT, 6, 2) == ["One two three. Four five.", "Four five. Six seven eight nine.", "Ten eleven."]
    assert pieces(TEXT, 6, 1) == pieces(TEXT, 6)
    # Were `Four five.` repeated, `Six seven eight nine.` would not fit.
    assert pieces(TEXT, 5, 2) == pieces(TEXT, 5)


def test_a_long_sentence_is_cut_between_words() -> None:
    assert pieces("a b c d e f g. H i.", 4, 1) == ["a b c d", "d e f g.", "H i."]


@pytest.mark.parametrize(
    "sentences",
    [
        ["He met Dr. Smith there.", "She left."],
        ["J. R. Smith wrote it.", "She read it."],
        ["It cost 3.5 pounds.", "It broke."],
        ["Trees, e.g. ash, grow.", "They do."],
        ["It stopped etc. and went on.", "Then it stopped."],
        ['"Who is it?" he asked.', '"Me!"', "She came in."],
        ["A line\nthat goes on."],
    ],
)
def test_sentences(sentences: list[str]) -> None:
    text = " ".join(sentences)
    spans = [match.span() for match in WORD.finditer(text)]
    bounds = pairwise([0, *_ends(text, spans)])
    assert [text[spans[first][0] : spans[last - 1][1]] for first, last in bounds] == sentences


def test_a_blank_line_ends_a_sentence() -> None:
    assert pieces("A heading\n \nThe text below it", 5) == ["A heading", "The text below it"]


def test_writing_without_blanks() -> None:
    assert pieces("今天很好。我们去公园。", 6) == ["今天很好。", "我们去公园。"]


def test_every_word_is_there_and_pieces_keep_the_rules() -> None:
    generator = random.Random(1)
    for _ in range(3000):
        text = " ".join(f"W{i}{generator.choice(['', '', '', '.'])}" for i in range(generator.randint(1, 60)))
        words = generator.randint(1, 15)
        overlap = generator.randint(0, words - 1)
        done = 0
        for start, end in cut(text, words, overlap):
            first = len(text[:start].split())
            last = first + len(text[start:end].split())
            assert last - first <= words and first <= done < last and done - first <= overlap
            done = last
        assert done == len(text.split())
