"""The words that BM25 counts: those of a text, without stop words, and stemmed, as the parameters say."""

from collections.abc import Callable
from functools import cache

import bm25s.stopwords as lists

from gnn_encoder.core.words import words as words_of
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
        kept = [word for word in words_of(text) if word not in left_out]
        return kept if stem is None else [stem(word) for word in kept]

    return words
