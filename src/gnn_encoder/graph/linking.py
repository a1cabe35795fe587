"""Edges of passages that the graph was built without: the queries that would retrieve them (section 3.2).

The queries' own edges stay, so that passages of the build do not change with new ones.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import polars as pl

from gnn_encoder.base.matrix import Matrix, Rows, Scores
from gnn_encoder.graph.structure import Bools, Graph

SCORES = 2**25  # scores of queries and new passages that are held at a time
# A passage that is linked again was encoded in another batch than in the build, which moves its scores in bf16 by less.
ROUNDING = 0.01
NO_PAIRS: Rows = np.empty((0, 2), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class Reach:
    """What a new passage's score must exceed to be among each query's k passages.

    *Shape:* (n,) each: for a passage that the query is labelled with, and for any other one.
    """

    labelled: Scores
    other: Scores

    @classmethod
    def of(cls, graph: Graph, first: Bools | None = None) -> Self:
        """The score of each query's last passage.

        Args:
            first: edges to labelled passages, where these come first, whatever their score; None: none do.
                *Shape:* (n * k,).
        """
        last = graph.score.reshape(graph.n, graph.k)[:, -1]
        if first is None:
            return cls(labelled=last, other=last)
        full = first.reshape(graph.n, graph.k)[:, -1]  # of labelled passages
        return cls(labelled=np.where(full, last, -np.inf), other=np.where(full, np.inf, last))


def link(
    queries: Matrix,
    reach: Reach,
    passages: Matrix,
    *,
    labelled: Rows = NO_PAIRS,
    before: Rows = NO_PAIRS,
) -> pl.DataFrame:
    """The queries that would retrieve new passages.

    Args:
        queries: E_Q of all queries of the graph. *Shape:* (n, d).
        passages: by the encoder that the graph was made with. *Shape:* (b, d).
        labelled: pairs of a query and a new passage that it is labelled with. *Shape:* (any, 2).
        before: pairs of a query and a new passage of which it retrieved a former version. *Shape:* (any, 2).

    Returns:
        Columns query, passage, score, sorted by passage, then score from the highest on, then query.
    """
    found = [pl.DataFrame(schema={"query": pl.Int64, "passage": pl.Int64, "score": pl.Float32})]
    size = max(1, SCORES // max(1, len(passages)))
    for first in range(0, len(queries), size):
        part = slice(first, first + size)
        scores = queries[part] @ passages.T
        bound = np.repeat(reach.other[part, None], len(passages), axis=1)
        query, passage = _within(labelled, first, len(scores)).T
        bound[query, passage] = reach.labelled[part][query]
        query, passage = _within(before, first, len(scores)).T
        bound[query, passage] -= ROUNDING * np.abs(bound[query, passage])
        query, passage = np.nonzero(scores > bound)
        found.append(pl.DataFrame({"query": first + query, "passage": passage, "score": scores[query, passage]}))
    return pl.concat(found).sort("passage", "score", "query", descending=[False, True, False])


def nearest(edges: pl.DataFrame, most: int | None) -> pl.DataFrame:
    """The `most` first edges of each passage; None: all."""
    return edges if most is None else edges.filter(pl.int_range(pl.len()).over("passage") < most)


def _within(pairs: Rows, first: int, size: int) -> Rows:
    """The pairs of a part of the queries, which are numbered from its first one on."""
    there = (pairs[:, 0] >= first) & (pairs[:, 0] < first + size)
    found: Rows = pairs[there] - np.array([first, 0])
    return found
