"""A source whose texts are cut into passages, with its judgements of documents as judgements of their passages.

Passage n of document D has the id `D#n`, from 0, and its document's title. A judgement of a document becomes one of the
passage where the answer begins, if the source knows it. Else it becomes one of the passage that shares most with the
query: the words that both have, each weighed by how rare it is in the corpus. Nobody said which passage was meant; a
query's rare words are the best hint that needs no model, and one passage a document, instead of all, keeps passages
that have nothing to do with the query out of the positives.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial

import regex

from gnn_encoder.core.progress import tqdm
from gnn_encoder.data.params import Cutting
from gnn_encoder.data.rows import Judgement, Passage, Place, Source

# A word is what stands between white space; in writing without blanks, each character.
UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}"
WORD = regex.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")
# A full stop ends no sentence after an initial or one of these, nor before a small letter.
ABBREVIATIONS = r"(?:Mr|Mrs|Ms|Dr|Prof|St|vs|No|Fig|Eq|Gen|Sen|Rep|Col|Lt|Jr|cf|al|e\.g|i\.e|approx|\p{Lu})"
CLOSING = r"""["'”’»)\]」』]*"""
SENTENCE_END = regex.compile(
    rf"(?<!\b{ABBREVIATIONS})\.{CLOSING}(?=\s+[^\s\p{{Ll}}])|[!?…]{CLOSING}(?=\s+[^\s\p{{Ll}}])|[。！？]{CLOSING}|(?=\n\s*\n)"
)
# A run of letters and digits; in writing without blanks, each character.
TERM = regex.compile(rf"(?V1)[{UNSPACED}]|[[\p{{L}}\p{{N}}\p{{M}}]--[{UNSPACED}]]+")
Chosen = dict[tuple[str, str, str], int]  # split, query and document -> the number of the document's passage


def cut_source(source: Source, cutting: Cutting) -> Source:
    """A source whose texts are cut. Memory: its judgements, the texts of all queries and their words."""
    chosen = cache(partial(choose, source, cutting))
    judgements = {split: partial(_judgements, source, split, chosen) for split in source.judgements}
    return replace(source, passages=partial(_passages, source, cutting), judgements=judgements)


def _passages(source: Source, cutting: Cutting) -> Iterator[tuple[Place, Passage]]:
    """The passages of each text, in order."""
    for place, document in source.passages():
        for number, (start, end) in enumerate(cut(document.text, cutting.words, cutting.overlap)):
            yield place, Passage(f"{document.pid}#{number}", document.title, document.text[start:end])


def _judgements(source: Source, split: str, chosen: Callable[[], Chosen]) -> Iterator[tuple[Place, Judgement]]:
    """The source's judgements, each of one passage; one of an unknown document stays as it is."""
    for place, judgement in source.judgements[split]():
        number = chosen().get((split, judgement.qid, judgement.pid))
        yield place, judgement if number is None else judgement._replace(pid=f"{judgement.pid}#{number}")


def choose(source: Source, cutting: Cutting) -> Chosen:
    """Which passage of its document each judgement is for."""
    asked: dict[tuple[str, str], str] = {}
    judged: dict[str, dict[tuple[str, str], int | None]] = defaultdict(dict)  # document -> its queries, and the answer
    for split, judgements in source.judgements.items():
        asked |= {(split, query.qid): query.text for _, query in source.queries[split]()}
        for _, judgement in judgements():
            judged[judgement.pid].setdefault((split, judgement.qid), judgement.at)
    unknown = {key for queries in judged.values() for key, at in queries.items() if at is None}
    weights = rarity(source, {term for key in unknown for term in terms(asked.get(key, ""))})
    chosen: Chosen = {}
    for _, document in tqdm(source.passages(), desc="documents that are judged", unit=" documents", disable=None):
        for (split, qid), at in judged.get(document.pid, {}).items():
            pieces = cut(document.text, cutting.words, cutting.overlap)
            texts = [document.text[start:end] for start, end in pieces]
            number = likeliest(texts, asked.get((split, qid), ""), weights) if at is None else holding(pieces, at)
            chosen[split, qid, document.pid] = number
    return chosen


def rarity(source: Source, wanted: set[str]) -> dict[str, float]:
    """Each of some words with ln((documents + 1) / (documents that hold it + 1))."""
    if not wanted:
        return {}
    documents, holding_it = 0, Counter[str]()
    for _, document in tqdm(source.passages(), desc="words of documents", unit=" documents", disable=None):
        documents += 1
        holding_it.update(terms(document.text) & wanted)
    return {term: math.log((documents + 1) / (holding_it[term] + 1)) for term in wanted}


def likeliest(pieces: list[str], query: str, weights: Mapping[str, float]) -> int:
    """The piece whose words that the query has too weigh most; the first of several."""
    scores = [math.fsum(weights[term] for term in terms(query) & terms(piece)) for piece in pieces]
    return scores.index(max(scores))


def holding(pieces: list[tuple[int, int]], at: int) -> int:
    """The piece in which the character `at` is farthest from both ends; the first of several."""
    margins = [min(at - start, end - 1 - at) for start, end in pieces]
    return margins.index(max(margins))


def terms(text: str) -> set[str]:
    """The words of a text, in lower case."""
    return set(TERM.findall(text.lower()))


# --- pieces of a text -------------------------------------------------------------------------------------------------


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
