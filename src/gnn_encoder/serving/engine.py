"""What the encoder thread does with a batch: it embeds the queries of an encoder and searches an index together."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
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
    """A query, what it is searched with, and how many passages are wanted."""

    query: str
    searcher: Searcher
    k: int


@dataclass(frozen=True, kw_only=True)
class Done:
    """A query's embedding, and what was found for it. *Shape:* vector (d,)."""

    vector: NDArray[np.float32]
    hits: list[Hit]


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
        vectors = by_group(works, lambda work: id(work.searcher.encoder), self._embed)
        embedded = [(work, one) for work, one in zip(works, vectors, strict=True) if not isinstance(one, Exception)]
        done = iter(by_group(embedded, lambda pair: (id(pair[0].searcher), pair[0].k), self._search))
        return [one if isinstance(one, Exception) else next(done) for one in vectors]

    def _embed(self, works: list[Work]) -> list[NDArray[np.float32]]:
        with self._timed("embed"):
            return list(works[0].searcher.encoder.embed_queries([work.query for work in works]))

    def _search(self, pairs: list[tuple[Work, NDArray[np.float32]]]) -> list[Done]:
        first, vectors = pairs[0][0], np.stack([vector for _, vector in pairs])
        with self._timed("search"):
            found = first.searcher.find([work.query for work, _ in pairs], vectors, first.k)
        return [Done(vector=vector, hits=hits) for vector, hits in zip(vectors, found, strict=True)]


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
