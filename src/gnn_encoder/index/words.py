"""The words of a text, as BM25 counts them, in any script.

Texts are brought to one form: compatibility characters as their plain ones (NFKC), without case, without soft hyphens.
A word is two or more letters or digits with their marks, such as the vowels of Hindi. Scripts without spaces between
words (Chinese, Japanese, Thai, Lao, Khmer, Burmese) are cut into pairs of characters that stand side by side.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import cache

import bm25s.stopwords as lists
import regex

from gnn_encoder.index.params import Stemmer, StopWords

STOP_WORDS = {
    "english": lists.STOPWORDS_EN,
    "danish": lists.STOPWORDS_DANISH,
    "dutch": lists.STOPWORDS_DUTCH,
    "french": lists.STOPWORDS_FRENCH,
    "german": lists.STOPWORDS_GERMAN,
    "italian": lists.STOPWORDS_ITALIAN,
    "norwegian": lists.STOPWORDS_NORWEGIAN,
    "portuguese": lists.STOPWORDS_PORTUGUESE,
    "russian": lists.STOPWORDS_RUSSIAN,
    "spanish": lists.STOPWORDS_SPANISH,
    "swedish": lists.STOPWORDS_SWEDISH,
    "turkish": lists.STOPWORDS_TURKISH,
}
PLAIN = re.compile(r"\w\w+")
UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
ANY = regex.compile(rf"(?V1)[{UNSPACED}]+|[[\w\p{{M}}]--[{UNSPACED}]]{{2,}}")
WITHOUT_SPACES = regex.compile(rf"[{UNSPACED}]")
INVISIBLE = regex.compile(r"[\u00AD\u200B-\u200D\u2060\uFEFF]")  # soft hyphens, joiners


def splitter(stop_words: StopWords | None, stemmer: Stemmer | None) -> Callable[[str], list[str]]:
    """What gives the words of a text.

    Args:
        stop_words: the language whose stop words are left out; None: none are.
        stemmer: the language by whose Snowball stemmer words are stemmed; None: they are not.
    """
    left_out = frozenset(() if stop_words is None else STOP_WORDS[stop_words])
    stem = None
    if stemmer is not None:
        from nltk.stem.snowball import SnowballStemmer  # takes half a second to import

        stem = cache(SnowballStemmer(stemmer).stem)

    def words(text: str) -> list[str]:
        kept = [word for word in _words(text) if word not in left_out]
        return kept if stem is None else [stem(word) for word in kept]

    return words


def _words(text: str) -> list[str]:
    if text.isascii():
        return PLAIN.findall(text.lower())
    text = unicodedata.normalize("NFKC", INVISIBLE.sub("", text)).casefold().replace("i\u0307", "i")
    found: list[str] = []
    for run in ANY.findall(unicodedata.normalize("NFKC", text)):
        found += _pairs(run) if WITHOUT_SPACES.match(run) else [run]
    return found


def _pairs(run: str) -> list[str]:
    """Characters with their marks, each with the next one."""
    letters = regex.findall(r"\X", run)
    return [a + b for a, b in zip(letters, letters[1:], strict=False)] or letters
