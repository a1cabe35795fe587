"""Cuts a text into pieces of a few words, at the ends of sentences where it can."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import regex

# A word is what stands between white space; in writing without blanks, each character.
UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}"
WORD = regex.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")
# A full stop ends no sentence after an initial or one of these, nor before a small letter.
ABBREVIATIONS = r"(?:Mr|Mrs|Ms|Dr|Prof|St|vs|No|Fig|Eq|Gen|Sen|Rep|Col|Lt|Jr|cf|al|e\.g|i\.e|approx|\p{Lu})"
CLOSING = r"""["'”’»)\]」』]*"""
SENTENCE_END = regex.compile(
    rf"(?<!\b{ABBREVIATIONS})\.{CLOSING}(?=\s+[^\s\p{{Ll}}])|[!?…]{CLOSING}(?=\s+[^\s\p{{Ll}}])|[。！？]{CLOSING}|(?=\n\s*\n)"
)


def cut(text: str, words: int, overlap: int) -> list[tuple[int, int]]:
    """The pieces of a text as ranges of characters, in order, which together hold every word.

    A piece ends with the last sentence that it holds whole. The next one begins with the last sentences of the piece
    before, as many as have at most `overlap` words, provided that it can then hold one more. A sentence of more than
    `words` words is cut between words, with `overlap` words on both sides of the cut.

    Args:
        text: not only white space.
        words: most words of a piece.
        overlap: most words that a piece repeats of the one before; less than `words`.
    """
    spans = [match.span() for match in WORD.finditer(text)]
    if len(spans) <= words:
        return [(spans[0][0], spans[-1][1])] if spans else []
    return [(spans[first][0], spans[last - 1][1]) for first, last in _ranges(_ends(text, spans), words, overlap)]


def _ends(text: str, spans: list[tuple[int, int]]) -> list[int]:
    """After how many words each sentence ends, the last one included."""
    starts = [start for start, _ in spans]
    ends = {bisect_left(starts, match.end()) for match in SENTENCE_END.finditer(text)}
    return sorted((ends | {len(spans)}) - {0})


def _ranges(ends: list[int], words: int, overlap: int) -> Iterator[tuple[int, int]]:
    """The pieces as ranges of words."""
    first, n = 0, ends[-1]
    while True:
        place = bisect_right(ends, first + words) - 1
        whole = place >= 0 and ends[place] > first
        last = ends[place] if whole else first + words
        yield first, last
        if last == n:
            return
        if not whole:
            first = last - overlap
            continue
        # The earliest sentence that may be repeated so that the sentence after `last` still fits.
        earliest = max(last - overlap, ends[place + 1] - words, first + 1)
        first = ends[min(bisect_left(ends, earliest), place)]
