"""What the encoder thread does with a batch: every text is embedded once, every index is searched once."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import faiss
import numpy as np
from numpy.typing import NDArray

from gnn_encoder.searcher import Hit, QueryEncoder, Searcher

# FAISS multiplies matrices only from 128,000 queries on; on one thread 16 queries are twice as fast that way.
MATRIX_QUERIES = 8
Vectors = NDArray[np.float32]
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
    """Embeddings of a work's texts and what was found. *Shape:* vectors (texts, d)."""

    vectors: Vectors
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
        vectors = self._embed(works)
        hits = self._search(works, vectors)
        return [_outcome(found, hit) for found, hit in zip(vectors, hits, strict=True)]

    def _embed(self, works: Sequence[Work]) -> list[Vectors | Exception]:
        found: list[Vectors | Exception] = [ValueError("not embedded")] * len(works)
        for places in _groups((id(work.encoder) for work in works), range(len(works))):
            texts = list(dict.fromkeys(text for place in places for text in works[place].texts))
            row = {text: number for number, text in enumerate(texts)}
            try:
                with self._time("embed"):
                    vectors = works[places[0]].encoder.embed_queries(texts)
                for place in places:
                    found[place] = vectors[[row[text] for text in works[place].texts]]
            except Exception as error:  # told to the requests
                for place in places:
                    found[place] = error
        return found

    def _search(
        self, works: Sequence[Work], vectors: Sequence[Vectors | Exception]
    ) -> list[list[list[Hit]] | Exception]:
        found: list[list[list[Hit]] | Exception] = [[] for _ in works]
        wanted = [place for place, work in enumerate(works) if work.searcher and isinstance(vectors[place], np.ndarray)]
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


def _outcome(vectors: Vectors | Exception, hits: list[list[Hit]] | Exception) -> Done | Exception:
    if isinstance(vectors, Exception):
        return vectors
    return hits if isinstance(hits, Exception) else Done(vectors=vectors, hits=hits)
