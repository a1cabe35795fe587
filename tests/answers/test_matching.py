"""Answer matching: cases worked out by hand from DPR's rules, and a slow version that follows them literally."""

import random
import unicodedata
from collections.abc import Sequence

import pytest
import regex

from gnn_encoder.answers.matching import finder, prepared, spaced_tokens
from gnn_encoder.base.errors import UserError

E_ACUTE, E_COMBINING = "\u00e9", "e\u0301"  # é as one character and as two
# What is tested, answers, text, whether it is found.
STRINGS = [
    ("a word", ["oven"], "The oven is hot.", True),
    ("part of a word", ["art"], "He will start the party.", False),
    ("several words", ["hot oven"], "a hot oven door", True),
    ("a word in between", ["hot oven"], "a hot gas oven", False),
    ("white space around the answer", ["  oven \n"], "an oven", True),
    ("no answers", [], "an oven", False),
    ("empty answer", [""], "an oven", False),
    ("control characters alone", ["\x00\u200b\u00ad"], "an oven", False),
    ("sharp s is not ss", ["strasse"], "Straße", False),
    ("Greek final sigma is a form of its own", ["οδος"], "ΟΔΟΣ", True),
    ("accent composed in the answer", [f"caf{E_ACUTE}"], f"a caf{E_COMBINING}", True),
    ("accent left out in the answer", ["cafe"], f"a caf{E_ACUTE}", False),
    ("ligature is not its letters", ["office"], "the o\ufb03ce", False),
    ("part of a number", ["42"], "In 1942", False),
    ("currency sign is a token", ["$5"], "It costs $5 today", True),
    ("per cent", ["5%"], "up by 5 %", True),
    ("full stop in the answer has to be there", ["U.S."], "the US army", False),
    ("hyphen is a token", ["well known"], "a well-known oven", False),
    ("soft hyphen cuts a word", ["oven"], "ov\u00aden", False),
    ("underscore cuts a word", ["oven"], "hot_oven", True),
    ("Chinese run of signs is one word", ["北京"], "我在北京工作", False),
    ("Chinese between punctuation", ["北京"], "首都：北京。", True),
    ("Devanagari vowel signs are of the word", ["हिन्दी"], "भाषा हिन्दी है", True),
    ("emoji with a skin tone has one token more", ["👍🏽"], "👍", False),
    ("punctuation alone", ["?"], "Why?", True),
    ("a very long answer", ["oven " * 5000], "x " + "oven " * 5000, True),
    ("a very long answer, one word off", ["oven " * 5000 + "pan"], "oven " * 6000, False),
    ("special characters of expressions are plain", ["a.c"], "abc", False),
]

EXPRESSIONS = [
    ("an expression", [r"19\d\d"], "In 1942", True),
    ("inside a word", ["art"], "start", True),
    ("line starts", [r"^oven"], "hot\noven", True),
    ("full stop is not a line end", ["hot.oven"], "hot\noven", False),
    ("alternatives", ["gas|oven"], "an oven", True),
    ("two expressions", ["gas", "ov[aeiou]n"], "an oven", True),
    ("accents are taken apart in both", [f"caf{E_ACUTE}"], f"caf{E_COMBINING}", True),
    ("letters with accents are two characters", ["caf.$"], f"caf{E_ACUTE}", False),
    ("empty expression", [""], "an oven", False),
    ("words in Unicode", [r"^\w+$"], "北京", True),
    ("many steps", [r"(\w+\s?)+!"], "a " * 200, False),
]


@pytest.mark.parametrize(("answers", "text", "expected"), [case[1:] for case in STRINGS], ids=[c[0] for c in STRINGS])
def test_strings(answers: list[str], text: str, expected: bool) -> None:
    assert finder(answers, "string")(prepared(text, "string")) is expected
    assert literally(answers, text) is expected


@pytest.mark.parametrize(
    ("answers", "text", "expected"), [case[1:] for case in EXPRESSIONS], ids=[c[0] for c in EXPRESSIONS]
)
def test_expressions(answers: list[str], text: str, expected: bool) -> None:
    assert finder(answers, "regex")(prepared(text, "regex")) is expected


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
        assert spaced_tokens(text).split(" ")[1:-1] == (tokens(text) or [""])
        hits += found
    assert 500 < hits < 2500


def test_case_is_lowered_token_by_token() -> None:
    """A sigma is final at the end of its token, whatever stands behind the token."""
    assert spaced_tokens("ΟΔΟΣ'Α") == " οδος ' α "


@pytest.mark.parametrize("answer", ["(", "[z-a]", "*a", "a{2,1}", r"\p{Nothing}", "(" * 3000 + ")" * 3000])
def test_what_is_no_expression(answer: str) -> None:
    with pytest.raises(UserError, match="is no regular expression"):
        finder(["fine", answer], "regex")


def test_an_expression_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnn_encoder.answers.matching.SECONDS", 0.05)
    text = "a" * 80 + "!"
    with pytest.raises(TimeoutError):
        regex.search("(a|aa)+$", text, timeout=0.05)
    with pytest.raises(UserError, match=r"'\(a\|aa\)\+\$' searched one passage for more than 0.05 s"):
        finder(["(a|aa)+$"], "regex")(text)
