"""s'(q, p) = s(q, p) + w * sum over the n labelled queries q' nearest to q that p is labelled with: cos(q, q').

The idea is LADER's (Jin, Shin and Lu, SIGIR 2023), which averages both scores: what is relevant for a similar query may
be relevant for this one. Here the weight is chosen on dev and may be negative. Online it costs a second look-up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.baselines.bonus import Bonus, last_scores
from gnn_encoder.baselines.choice import Limits, Setting, plainest_first
from gnn_encoder.baselines.params import Baselines
from gnn_encoder.baselines.rankings import NOTHING, Ranking, of_length_1
from gnn_encoder.core.errors import not_built
from gnn_encoder.core.rows import Matrix, Rows, Scores, spans
from gnn_encoder.core.storage.arrays import gather
from gnn_encoder.index.exact import block_top_k

LABELLED = "log"  # folder of the labelled queries in the artifact of this system
VECTORS, STARTS, PASSAGES = "vectors.npy", "starts.npy", "passages.npy"
Score = Callable[[Rows, Rows], Scores]  # of queries and passages, rows of both: *Shape:* (e,), (e,) -> (e,)


@dataclass(frozen=True, kw_only=True)
class Given:
    """What the labelled passages of similar queries get; row by row a passage of a neighbour of a query.

    *Shape:* all (g,): row of the query, row of the passage, place of the neighbour from 0, its similarity.
    """

    query: Rows
    passage: Rows
    place: Rows
    similarity: Scores


@dataclass(frozen=True, kw_only=True)
class LabelledQueries:
    """The training queries that have a label, looked up by similarity.

    *Shape:* vectors (n, d), of length 1; starts (n + 1,): query i is labelled with passages[starts[i]:starts[i + 1]].
    """

    vectors: Matrix
    starts: Rows
    passages: Rows

    @classmethod
    def of(cls, pairs: pl.DataFrame, queries: Matrix) -> Self:
        """Keep the queries that have a label.

        Args:
            pairs: columns query, a row of `queries`, and passage.
        """
        pairs = pairs.sort("query", "passage")
        rows, starts = np.unique(pairs["query"].to_numpy(), return_index=True)
        passages = pairs["passage"].to_numpy().astype(np.int64)
        return cls(vectors=of_length_1(queries[rows]), starts=np.append(starts, len(passages)), passages=passages)

    def save(self, folder: Path) -> None:
        """Write arrays that can be mapped."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in ((VECTORS, self.vectors), (STARTS, self.starts), (PASSAGES, self.passages)):
            np.save(folder / name, array)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Map what `save` wrote.

        Raises:
            UserError: a file is missing.
        """
        try:
            vectors, starts, passages = (np.load(folder / name, mmap_mode="r") for name in (VECTORS, STARTS, PASSAGES))
        except FileNotFoundError as error:
            raise not_built(error.filename) from error
        return cls(vectors=vectors, starts=starts, passages=passages)

    @property
    def bytes(self) -> int:
        """Size of the arrays."""
        return self.vectors.nbytes + self.starts.nbytes + self.passages.nbytes

    def look_up(self, queries: Matrix, neighbours: int) -> Given:
        """The labelled passages of each query's nearest labelled queries, by cosine. *Shape:* queries (n, d)."""
        if len(self.vectors) == 0:
            none = np.empty(0, np.int64)
            return Given(query=none, passage=none, place=none, similarity=np.empty(0, np.float32))
        nearest, cosines = block_top_k(self.vectors, of_length_1(queries), neighbours)
        lengths = np.diff(self.starts)[nearest]
        each = lengths.reshape(-1)
        labels, _ = spans(self.starts[nearest].reshape(-1), each)
        place = np.broadcast_to(np.arange(nearest.shape[1]), nearest.shape).reshape(-1)
        return Given(
            query=np.repeat(np.arange(len(queries)), lengths.sum(axis=1)),
            passage=np.asarray(self.passages[labels]),
            place=np.repeat(place, each),
            similarity=np.repeat(cosines.reshape(-1), each),
        )


def settings(section: Baselines) -> list[Setting]:
    """What is tried; of equally good ones the first is taken, which changes M_de's ranking least."""
    return [
        {"weight": weight, "neighbours": count}
        for weight in plainest_first(section.neighbour_weights)
        for count in sorted(set(section.neighbours))
    ]


def limits(section: Baselines) -> Limits:
    """The numbers of neighbours that need no further trial: with all queries it is nearly the system `label_prior`."""
    return {"neighbours": (1, max(section.neighbours))}


def scorer(matrix: NDArray[Any], queries: Matrix) -> Score:
    """Inner products of queries with single rows of a passage matrix. *Shape:* (m, d), (n, d)."""

    def score(of: Rows, passages: Rows) -> Scores:
        vectors = gather(matrix, passages).astype(np.float32)
        scores: Scores = np.einsum("ed,ed->e", queries[of], vectors)
        return scores

    return score


def with_neighbours(
    run: Ranking, given: Given, counts: Sequence[int], score: Score, *, corpus: int, unit: float
) -> Bonus:
    """Candidates: the passages of M_de's run and the labelled ones of the neighbours, with what they get.

    bonus_n(q, p) = sum over the n nearest labelled queries q' that p is labelled with: cos(q, q')

    Args:
        run: *Shape:* (n, k) both.
        given: the labelled passages of each query's neighbours, of the largest of `counts`.
        counts: how many neighbours to sum over; each is one entry of the result's `bonuses`.
        score: M_de's score of passages that its run does not have.
        corpus: number of passages.
    """
    passages, base = run
    last = last_scores(passages, base, corpus)
    keys, of_given = np.unique(given.query * corpus + given.passage, return_inverse=True)
    queries, rows = np.divmod(keys, corpus)
    columns = _columns(passages, keys, corpus)
    missing = np.flatnonzero(columns < 0)
    columns[missing] = passages.shape[1] + _within(queries[missing])
    extra = int(columns.max(initial=-1)) + 1 - passages.shape[1]
    if extra > 0:
        passages = np.pad(passages, ((0, 0), (0, extra)), constant_values=-1)
        base = np.pad(base, ((0, 0), (0, extra)), constant_values=NOTHING)
        at = queries[missing], columns[missing]
        passages[at], base[at] = rows[missing], score(queries[missing], rows[missing])
    bonuses = {}
    for count in counts:
        bonus = np.zeros(passages.shape, dtype=np.float32)
        near = given.place < count
        np.add.at(bonus, (given.query[near], columns[of_given[near]]), given.similarity[near])
        bonuses[count] = bonus
    return Bonus(passages=passages, base=base, bonuses=bonuses, last=last, elsewhere=0.0, unit=unit)


def _columns(passages: Rows, keys: Rows, corpus: int) -> Rows:
    """The column in which each query's passage stands, -1 where it does not. `keys`: query * corpus + passage."""
    found = np.argwhere(passages >= 0)
    own = found[:, 0] * corpus + passages[tuple(found.T)]
    order = np.argsort(own, kind="stable")
    at = np.searchsorted(own[order], keys)
    known = np.zeros(len(keys), dtype=bool)
    known[at < len(own)] = own[order[at[at < len(own)]]] == keys[at < len(own)]
    columns = np.full(len(keys), -1, dtype=np.int64)
    columns[known] = found[order[at[known]], 1]
    return columns


def _within(queries: Rows) -> Rows:
    """Place of each row among the rows of its query; `queries` is sorted. *Shape:* (e,)."""
    return np.arange(len(queries)) - np.searchsorted(queries, queries)
