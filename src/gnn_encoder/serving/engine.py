"""What the encoder thread does with a batch: it embeds the texts of an encoder together, and searches an index once."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import faiss
import numpy as np
from numpy.typing import NDArray

from gnn_encoder.models.query_encoder import QueryEncoder, graph_of
from gnn_encoder.pipeline import project
from gnn_encoder.searcher import Hit, Searcher

# FAISS multiplies matrices only from 128,000 queries on; on one thread 16 queries are twice as fast that way.
MATRIX_QUERIES = 8
Item = TypeVar("Item")
Result = TypeVar("Result")


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
    """Embeddings of a work's texts, how many tokens of each were read, and what was found for each.

    *Shape:* vectors (n, d), tokens (n,).
    """

    vectors: NDArray[np.float32]
    tokens: NDArray[np.int64]
    hits: list[list[Hit]] = field(default_factory=list)


class Engine:
    """Does batches of work; only ever called from one thread.

    Args:
        timed: gives a context that times a part of the work, embed or search.
    """

    def __init__(self, timed: Callable[[str], AbstractContextManager[Any]] = nullcontext) -> None:
        self._timed = timed
        faiss.cvar.distance_compute_blas_threshold = MATRIX_QUERIES

    def __call__(self, works: Sequence[Work]) -> list[Done | Exception]:
        """Do a batch. A failure of an encoder or an index reaches the works that use it, and no others."""
        embedded = by_group(works, lambda work: id(work.encoder), self._embed)
        return by_group(list(zip(works, embedded, strict=True)), _searched, self._search)

    def _embed(self, works: list[Work]) -> list[Done]:
        with self._timed("embed"):
            vectors, tokens = works[0].encoder.embed_and_count([text for work in works for text in work.texts])
        ends = np.cumsum([work.size for work in works])[:-1]
        parts = zip(np.split(vectors, ends), np.split(tokens, ends), strict=True)
        return [Done(vectors=some, tokens=counts) for some, counts in parts]

    def _search(self, pairs: list[tuple[Work, Done | Exception]]) -> list[Done | Exception]:
        (searcher, k), whole = (pairs[0][0].searcher, pairs[0][0].k), [done for _, done in pairs]
        embedded = [done for done in whole if isinstance(done, Done)]
        if searcher is None or not embedded:
            return whole
        texts = [text for work, _ in pairs for text in work.texts]
        with self._timed("search"):
            hits = iter(searcher.find(texts, np.concatenate([done.vectors for done in embedded]), k))
        return [replace(done, hits=[next(hits) for _ in done.tokens]) for done in embedded]


def _searched(pair: tuple[Work, Done | Exception]) -> Hashable:
    """What is alike for works that are searched together; those that failed stay as they are."""
    work, done = pair
    return (id(work.searcher), work.k) if isinstance(done, Done) else None


def by_group(
    items: Sequence[Item], key: Callable[[Item], Hashable], do: Callable[[list[Item]], Sequence[Result]]
) -> list[Result | Exception]:
    """What `do` makes of the items of each key together, in the items' order; its exception for all of the group."""
    groups: defaultdict[Hashable, list[int]] = defaultdict(list)
    for place, item in enumerate(items):
        groups[key(item)].append(place)
    found: dict[int, Result | Exception] = {}
    for places in groups.values():
        try:
            found.update(zip(places, do([items[place] for place in places]), strict=True))
        except Exception as error:  # told to the requests
            found.update(dict.fromkeys(places, error))
    return [found[place] for place in range(len(items))]


class Encoders:
    """The encoders in use. Systems whose encoders are equal share one, and one that none uses is dropped."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[str, QueryEncoder] = WeakValueDictionary()

    def load(self, folder: Path) -> QueryEncoder:
        """The encoder of a folder."""
        name = graph_of(folder, project.QUERY_ENCODERS).name
        found = self._known.get(name)
        if found is None:
            self._known[name] = found = QueryEncoder.open(folder, project.QUERY_ENCODERS)
        return found
