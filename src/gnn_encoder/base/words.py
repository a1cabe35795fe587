"""What can be seen of a text, and its words, as BM25 counts them: in scripts without spaces pairs of characters."""

import re
import unicodedata
from itertools import pairwise

import regex

# In regular expressions: soft hyphens, joiners and marks of direction; and the zero width space, between words.
INSIDE_WORDS = r"\u00AD\u200C-\u200F\u2060\uFEFF"
INVISIBLE = INSIDE_WORDS + r"\u200B"
EMPTY = re.compile(rf"[\s{INVISIBLE}]*")
PLAIN = re.compile(r"\w\w+")
UNSPACED = (
    r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Bopomofo}\p{Yi}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
    r"\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}\p{Javanese}\p{Balinese}"
)
ANY = regex.compile(rf"(?V1)[{UNSPACED}]+|[[\w\p{{M}}]--[{UNSPACED}]]{{2,}}")
WITHOUT_SPACES = regex.compile(rf"[{UNSPACED}]")
HIDDEN = re.compile(f"[{INSIDE_WORDS}]")
CHARACTER = regex.compile(rf"(?=[{UNSPACED}])\X")  # with its marks


def is_empty(text: str) -> bool:
    """Whether nothing of a text can be seen."""
    return EMPTY.fullmatch(text) is not None


def words(text: str) -> list[str]:
    """The words of a text, in their order."""
    if text.isascii():
        return PLAIN.findall(text.lower())
    text = unicodedata.normalize("NFKC", HIDDEN.sub("", text)).casefold().replace("i\u0307", "i")
    found: list[str] = []
    for run in ANY.findall(unicodedata.normalize("NFKC", text)):
        letters = regex.findall(r"\X", run) if WITHOUT_SPACES.match(run) else [run]  # characters with their marks
        found += map("".join, pairwise(letters)) if len(letters) > 1 else letters
    return found
