"""The words of a text in any script: what BM25 counts, and what a passage shares with a query.

Texts are brought to one form: compatibility characters as their plain ones (NFKC), without case, without soft hyphens,
joiners and marks of direction. A word is two or more letters or digits with their marks, such as the vowels of Hindi.
Scripts without spaces between words, such as Chinese and Thai, are cut into pairs of characters that stand side by
side; a character that stands alone is a word.
"""

import re
import unicodedata

import regex

from gnn_encoder.core.marks import INSIDE_WORDS

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
