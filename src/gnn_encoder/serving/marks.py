"""Which words of a passage are words of the query, for people to see why it was found."""

import re
from collections.abc import Iterable

from bm25s.stopwords import STOPWORDS_EN_PLUS

STOPWORDS = frozenset(STOPWORDS_EN_PLUS)
WORD = re.compile(r"\w\w+")  # as BM25's index counts words
Span = tuple[int, int]


def words_of(query: str) -> frozenset[str]:
    """The query's words but for stop words, each in the form in which it is compared."""
    return frozenset(_form(word) for word in WORD.findall(query) if word.lower() not in STOPWORDS)


def spans(words: frozenset[str], text: str) -> list[Span]:
    """Where `text` has one of the words: first character and the one after the last, counted in code points."""
    if not words:
        return []
    return [found.span() for found in WORD.finditer(text) if _form(found[0]) in words]


def matched(words: frozenset[str], texts: Iterable[str]) -> list[str]:
    """The words that some text has, as it spells them first but for capitals, in order."""
    found: dict[str, str] = {}
    for text in texts:
        for first, last in spans(words, text):
            found.setdefault(_form(text[first:last]), text[first:last].lower())
    return list(found.values())


def _form(word: str) -> str:
    """In lower case and without a plural's s: `Aids` is compared as `aid`, `loss` as itself."""
    word = word.lower()
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
