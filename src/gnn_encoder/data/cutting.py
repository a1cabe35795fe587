"""A source whose texts are cut into passages, with its judgements of documents as judgements of their passages.

Passage n of document D has the id `D#n`, from 0, and its document's title. A judgement of a document becomes one of the
passage where the answer begins, if the source knows it. Else it becomes one of the passage that shares most with the
query: the words that both have, each weighed by how rare it is in the corpus. Nobody said which passage was meant; a
query's rare words are the best hint that needs no model, and one passage a document, instead of all, keeps passages
that have nothing to do with the query out of the positives.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl
import regex
from numpy.typing import NDArray

from gnn_encoder.core.progress import tqdm
from gnn_encoder.core.storage.tables import batched
from gnn_encoder.data.params import Cutting
from gnn_encoder.data.rows import DataSource, Judgement, Passage, Place, Query

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
DOCUMENTS = 1024  # whose judgements are looked up together
JUDGED = pl.Schema({"row": pl.Int32(), "qid": pl.String(), "pid": pl.String(), "at": pl.Int64()})


class Cut:
    """A source whose texts are cut.

    Memory: the judgements with the texts of their queries, the words of these, and some documents.
    """

    def __init__(self, source: DataSource, cutting: Cutting) -> None:
        self._source, self._cutting = source, cutting
        self.splits, self.answered, self.shared_qids = source.splits, source.answered, source.shared_qids

    @property
    def dropped(self) -> Mapping[str, int]:
        """What the source leaves out."""
        return self._source.dropped

    def files(self) -> list[Path]:
        """The source's files."""
        return self._source.files()

    def passages(self) -> Iterator[tuple[Place, Passage]]:
        """The passages of each text, in order."""
        for place, document in self._source.passages():
            for number, (start, end) in enumerate(self._pieces(document.text)):
                yield place, Passage(f"{document.pid}#{number}", document.title, document.text[start:end])

    def queries(self, split: str) -> Iterator[tuple[Place, Query]]:
        """The source's queries."""
        return self._source.queries(split)

    def judgements(self, split: str) -> Iterator[tuple[Place, Judgement]]:
        """The source's judgements, each of one passage; one of an unknown document stays as it is."""
        for (place, judgement), number in zip(self._source.judgements(split), self._chosen[split], strict=True):
            yield place, judgement._replace(pid=f"{judgement.pid}#{number}") if number >= 0 else judgement

    def _pieces(self, text: str) -> list[tuple[int, int]]:
        return cut(text, self._cutting.words, self._cutting.overlap)

    @cached_property
    def _chosen(self) -> dict[str, NDArray[np.int32]]:
        """Split -> the number of the passage that each judgement is for; -1: the document is unknown."""
        judged = {split: self._judged(split) for split in self.splits}
        weights = self._weights(judged)
        chosen = {split: np.full(len(rows), -1, dtype=np.int32) for split, rows in judged.items()}
        documents = self._documents("documents that are judged")
        while batch := dict(islice(documents, DOCUMENTS)):
            of_batch = pl.col("pid").is_in(pl.Series(list(batch), dtype=pl.String).implode())
            for split, rows in judged.items():
                for row, pid, at, query in rows.filter(of_batch).select("row", "pid", "at", "query").iter_rows():
                    chosen[split][row] = self._choose(batch[pid], at, query or "", weights)
        return chosen

    def _choose(self, text: str, at: int | None, query: str, weights: Mapping[str, float]) -> int:
        pieces = self._pieces(text)
        if len(pieces) == 1:
            return 0
        if at is not None:
            return holding(pieces, at)
        asked = terms(query)
        shared = (asked & terms(text[start:end]) for start, end in pieces)
        scores = [math.fsum(weights[term] for term in found) for found in shared]
        return scores.index(max(scores))

    def _judged(self, split: str) -> pl.DataFrame:
        """The judgements of a split as `JUDGED`, with the text of their queries, null for unknown ones."""
        rows = ((row, j.qid, j.pid, j.at) for row, (_, j) in enumerate(self._source.judgements(split)))
        parts = (pl.DataFrame(batch, JUDGED, orient="row") for batch in batched(rows))
        table = pl.concat([pl.DataFrame(schema=JUDGED), *parts])
        asked = table["qid"].unique().implode()
        queries = (query[:2] for _, query in self._source.queries(split))
        schema = {"qid": pl.String, "query": pl.String}
        frames = (pl.DataFrame(batch, schema, orient="row") for batch in batched(queries))
        texts = [frame.filter(pl.col("qid").is_in(asked)) for frame in frames]
        found = pl.concat([pl.DataFrame(schema=schema), *texts]).unique("qid", keep="first", maintain_order=True)
        return table.join(found, on="qid", how="left", maintain_order="left")

    def _weights(self, judged: Mapping[str, pl.DataFrame]) -> dict[str, float]:
        """Each word of the queries with ln((documents + 1) / (documents that hold it + 1))."""
        wanted: set[str] = set()
        for rows in judged.values():
            texts = rows.filter(pl.col("at").is_null())["query"].drop_nulls().unique()
            for (text,) in texts.to_frame().iter_rows():
                wanted |= terms(text)
        if not wanted:
            return {}
        documents, holding_it = 0, Counter[str]()
        for _, text in self._documents("words of documents"):
            documents += 1
            holding_it.update(terms(text) & wanted)
        return {term: math.log((documents + 1) / (holding_it[term] + 1)) for term in wanted}

    def _documents(self, name: str) -> Iterator[tuple[str, str]]:
        """Id and text of each document."""
        rows = tqdm(self._source.passages(), desc=name, unit=" documents", disable=None)
        return ((document.pid, document.text) for _, document in rows)


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
