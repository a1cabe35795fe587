"""A source whose texts are cut into passages, with its judgements of documents as judgements of their passages.

Passages are blocks of words, as DPR cuts Wikipedia (Karpukhin et al. 2020, section 4.1). Passage n of document D has
the id `D#n`, from 0, and its document's title. A judgement of a document becomes one of the passage where the answer
begins, if the source knows it. Else it becomes one of the passage that shares most with the query: the words that both
have, each weighed by how rare it is in the corpus. Nobody said which passage was meant; a query's rare words are the
best hint that needs no model, and one passage a document, instead of all, keeps passages that have nothing to do with
the query out of the positives.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial

import regex

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.words import UNSPACED
from gnn_encoder.base.words import words as words_of
from gnn_encoder.data.rows import Judgement, Passage, Place, Source
from gnn_encoder.pipeline.params import Cutting

# What stands between white space; in scripts without spaces, each character with its marks.
WORD = regex.compile(rf"[{UNSPACED}]\p{{M}}*|[^\s{UNSPACED}]+")
Chosen = dict[tuple[str, str, str], int]  # split, query and document -> the number of the document's passage


def cut_source(source: Source, cutting: Cutting) -> Source:
    """A source whose texts are cut. Memory: its judgements, the texts of all queries and their words."""
    chosen = cache(partial(choose, source, cutting))
    judgements = {split: partial(_judgements, source, split, chosen) for split in source.judgements}
    return replace(source, passages=partial(_passages, source, cutting), judgements=judgements)


def _passages(source: Source, cutting: Cutting) -> Iterator[tuple[Place, Passage]]:
    """The passages of each text, in order."""
    for place, document in source.passages():
        for number, (start, end) in enumerate(cut(document.text, cutting)):
            yield place, Passage(f"{document.pid}#{number}", document.title, document.text[start:end])


def _judgements(source: Source, split: str, chosen: Callable[[], Chosen]) -> Iterator[tuple[Place, Judgement]]:
    """The source's judgements, each of one passage; one of an unknown document stays as it is."""
    for place, judgement in source.judgements[split]():
        number = chosen().get((split, judgement.qid, judgement.pid))
        yield place, judgement if number is None else judgement._replace(pid=f"{judgement.pid}#{number}")


def cut(text: str, cutting: Cutting) -> list[tuple[int, int]]:
    """The blocks of a text as ranges of characters, which together hold every word.

    Each has `cutting.words` words, the last one perhaps fewer, and begins with `cutting.overlap` of the one before.
    """
    words = [match.span() for match in WORD.finditer(text)]
    firsts = range(0, max(1, len(words) - cutting.overlap), cutting.words - cutting.overlap)
    blocks = [words[first : first + cutting.words] for first in firsts]
    return [(block[0][0], block[-1][1]) for block in blocks]


def choose(source: Source, cutting: Cutting) -> Chosen:
    """Which passage of its document each judgement is for."""
    asked: dict[tuple[str, str], str] = {}
    judged: dict[str, dict[tuple[str, str], int | None]] = defaultdict(dict)  # document -> its queries, and the answer
    for split, judgements in source.judgements.items():
        asked |= {(split, query.qid): query.text for _, query in source.queries[split]()}
        for _, judgement in judgements():
            judged[judgement.pid].setdefault((split, judgement.qid), judgement.at)
    unknown = {key for queries in judged.values() for key, at in queries.items() if at is None}
    weights = rarity(source, {term for key in unknown for term in words_of(asked.get(key, ""))})
    chosen: Chosen = {}
    for _, document in tqdm(source.passages(), desc="documents that are judged", unit=" documents"):
        for (split, qid), at in judged.get(document.pid, {}).items():
            blocks = cut(document.text, cutting)
            texts = [document.text[start:end] for start, end in blocks]
            number = likeliest(texts, asked.get((split, qid), ""), weights) if at is None else holding(blocks, at)
            chosen[split, qid, document.pid] = number
    return chosen


def rarity(source: Source, wanted: set[str]) -> dict[str, float]:
    """Each of some words with ln((documents + 1) / (documents that hold it + 1))."""
    if not wanted:
        return {}
    documents, holding_it = 0, Counter[str]()
    for _, document in tqdm(source.passages(), desc="words of documents", unit=" documents"):
        documents += 1
        holding_it.update(wanted.intersection(words_of(document.text)))
    return {term: math.log((documents + 1) / (holding_it[term] + 1)) for term in wanted}


def likeliest(blocks: list[str], query: str, weights: Mapping[str, float]) -> int:
    """The block whose words that the query has too weigh most; the first of several."""
    asked = set(words_of(query))
    scores = [math.fsum(weights[term] for term in asked.intersection(words_of(block))) for block in blocks]
    return scores.index(max(scores))


def holding(blocks: list[tuple[int, int]], at: int) -> int:
    """The block in which the character `at` is farthest from both ends; the first of several."""
    margins = [min(at - start, end - 1 - at) for start, end in blocks]
    return margins.index(max(margins))
