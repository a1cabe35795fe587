"""What the encoder thread does with a batch: every text is embedded once, every index is searched once."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import faiss
import numpy as np

from gnn_encoder.searcher import Hit, QueryEncoder, Searcher
from gnn_encoder.serving.encoder import Embedded, embed

# FAISS multiplies matrices only from 128,000 queries on; on one thread 16 queries are twice as fast that way.
MATRIX_QUERIES = 8
Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class Work:
    """Texts to embed and, with a searcher, to search with.

    Attributes:
        k: passages a query; only read with a searcher.
    """

    texts: tuple[str, ...]
    encoder: QueryEncoder
    searcher: Searcher | None = None
    k: int = 0

    @property
    def size(self) -> int:
        """Texts."""
        return len(self.texts)


@dataclass(frozen=True, kw_only=True)
class Done:
    """Embeddings of a work's texts, and what was found for each."""

    embedded: Embedded
    hits: list[list[Hit]]


class Watch(Protocol):
    """Times the parts of the work."""

    def time(self, part: str) -> AbstractContextManager[Any]:
        """A context that measures `part`, embed or search."""


class Engine:
    """Does batches of work; only ever called from one thread."""

    def __init__(self, watch: Watch | None = None) -> None:
        self._watch = watch
        faiss.cvar.distance_compute_blas_threshold = MATRIX_QUERIES

    def __call__(self, works: Sequence[Work]) -> list[Done | Exception]:
        """Do a batch. A failure of an encoder or an index reaches the works that use it, and no others."""
        embedded = self._embed(works)
        hits = self._search(works, embedded)
        return [_outcome(found, hit) for found, hit in zip(embedded, hits, strict=True)]

    def _embed(self, works: Sequence[Work]) -> list[Embedded | Exception]:
        found: list[Embedded | Exception] = [ValueError("not embedded")] * len(works)
        for places in _groups((id(work.encoder) for work in works), range(len(works))):
            texts = list(dict.fromkeys(text for place in places for text in works[place].texts))
            row = {text: number for number, text in enumerate(texts)}
            try:
                with self._time("embed"):
                    embedded = embed(works[places[0]].encoder, texts)
                for place in places:
                    found[place] = embedded.take([row[text] for text in works[place].texts])
            except Exception as error:  # told to the requests
                for place in places:
                    found[place] = error
        return found

    def _search(
        self, works: Sequence[Work], embedded: Sequence[Embedded | Exception]
    ) -> list[list[list[Hit]] | Exception]:
        found: list[list[list[Hit]] | Exception] = [[] for _ in works]
        vectors = {place: one.vectors for place, one in enumerate(embedded) if isinstance(one, Embedded)}
        wanted = [place for place in vectors if works[place].searcher]
        for places in _groups(((id(works[place].searcher), works[place].k) for place in wanted), wanted):
            searcher, k = works[places[0]].searcher, works[places[0]].k
            assert searcher is not None
            texts = [text for place in places for text in works[place].texts]
            try:
                with self._time("search"):
                    hits = iter(searcher.find(texts, np.concatenate([vectors[place] for place in places]), k))
                for place in places:
                    found[place] = [next(hits) for _ in works[place].texts]
            except Exception as error:  # told to the requests
                for place in places:
                    found[place] = error
        return found

    def _time(self, part: str) -> AbstractContextManager[Any]:
        return self._watch.time(part) if self._watch else nullcontext()


def _groups(keys: Iterable[Hashable], items: Iterable[Item]) -> list[list[Item]]:
    """Items with equal keys together."""
    found: defaultdict[Hashable, list[Item]] = defaultdict(list)
    for key, item in zip(keys, items, strict=True):
        found[key].append(item)
    return list(found.values())


def _outcome(embedded: Embedded | Exception, hits: list[list[Hit]] | Exception) -> Done | Exception:
    if isinstance(embedded, Exception):
        return embedded
    return hits if isinstance(hits, Exception) else Done(embedded=embedded, hits=hits)
