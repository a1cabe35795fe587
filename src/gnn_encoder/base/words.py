"""Characters that are no part of a text: byte order marks, also in the middle of joined files, and invisible ones."""

import re
import unicodedata

import regex

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
GZIP = b"\x1f\x8b"  # how a gzip file begins, whatever its name is
# In regular expressions: soft hyphens, joiners and marks of direction; and the zero width space, between words.
INSIDE_WORDS = r"\u00AD\u200C-\u200F\u2060\uFEFF"
INVISIBLE = INSIDE_WORDS + r"\u200B"
EMPTY = re.compile(rf"[\s{INVISIBLE}]*")


def without_marks(line: bytes) -> bytes:
    """A line without the byte order marks at its start."""
    while line.startswith(BYTE_ORDER_MARK):
        line = line.removeprefix(BYTE_ORDER_MARK)
    return line


def is_empty(text: str) -> bool:
    """Whether nothing of a text can be seen."""
    return EMPTY.fullmatch(text) is not None


PLAIN = re.compile(r"\w\w+")
UNSPACED = (
    r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Bopomofo}\p{Yi}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
    r"\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}\p{Javanese}\p{Balinese}"
)
ANY = regex.compile(rf"(?V1)[{UNSPACED}]+|[[\w\p{{M}}]--[{UNSPACED}]]{{2,}}")
WITHOUT_SPACES = regex.compile(rf"[{UNSPACED}]")
HIDDEN = re.compile(f"[{INSIDE_WORDS}]")
CHARACTER = regex.compile(rf"(?=[{UNSPACED}])\X")  # with its marks


def words(text: str) -> list[str]:
    """The words of a text, in their order."""
    if text.isascii():
        return PLAIN.findall(text.lower())
    text = unicodedata.normalize("NFKC", HIDDEN.sub("", text)).casefold().replace("i\u0307", "i")
    found: list[str] = []
    for run in ANY.findall(unicodedata.normalize("NFKC", text)):
        found += _pairs(run) if WITHOUT_SPACES.match(run) else [run]
    return found


def _pairs(run: str) -> list[str]:
    """Characters with their marks, each with the next one."""
    letters = regex.findall(r"\X", run)
    return [a + b for a, b in zip(letters, letters[1:], strict=False)] or letters
