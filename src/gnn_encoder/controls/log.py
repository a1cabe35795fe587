"""What is relevant for similar logged queries may be relevant for this one.

    s'(q, p) = s(q, p) + w * u * sum of softmax(cos(q, q') / temperature) over the queries q' that p is labelled with

Of the logged queries q' the n nearest to q count, and the softmax goes over these. The idea is LADER's (Jin, Shin and
Lu, SIGIR 2023), which adds the cosines. Here w, n and temperature are chosen on dev, and w may be negative. The unit u
is the standard deviation of M_de's scores of one query's passages, so that one grid fits scores of any scale. Online
it costs a second look-up.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl

from gnn_encoder.base.errors import not_built
from gnn_encoder.base.matrix import Matrix, Rows, Scores, of_length_1, spans
from gnn_encoder.controls.choose import NOTHING, Candidates, Ranking, Setting, taken, union
from gnn_encoder.search.exact import block_top_k

LABELLED = "log"  # folder of the labelled queries in the artifact of this system
VECTORS, STARTS, PASSAGES = "vectors.npy", "starts.npy", "passages.npy"
WEIGHTS = (0.0, -0.5, 0.5, 1.0, -2.0, 2.0, 4.0, -8.0, 8.0, 16.0, 32.0)  # the first changes M_de's ranking least
NEIGHBOURS = (1, 10, 30, 100)  # n
TEMPERATURES = (0.02, 0.05, 0.1, 1.0)


def settings() -> list[Setting]:
    """What is tried; of equally good ones the first is taken. Over one neighbour the softmax is 1."""
    softmaxes = [(n, one) for n in NEIGHBOURS for one in TEMPERATURES[: None if n > 1 else 1]]
    return [
        {"weight": weight, "neighbours": n, "temperature": temperature}
        for weight in WEIGHTS
        for n, temperature in softmaxes
    ]


def unit(passages: Rows, scores: Scores) -> float:
    """Standard deviation of the scores of one query's passages, as the mean over queries.

    *Shape:* (n, k) both, passages -1 where there is none.
    """
    found = passages >= 0
    values = np.where(found, scores, np.nan).astype(np.float64)[found.any(axis=1)]
    return float(np.nanstd(values, axis=1).mean()) if len(values) else 0.0


@dataclass(frozen=True, kw_only=True)
class NearLabels:
    """The labelled passages of each query's nearest logged queries.

    *Shape:* passages (n, b), each once a query, -1 where there are fewer; cosines (n, c) of the neighbours, nearest
    first; query, column, place (g,), one for each label: which query, which of its passages, of which neighbour.
    """

    passages: Rows
    cosines: Scores
    query: Rows
    column: Rows
    place: Rows

    def shares(self, setting: Setting) -> Scores:
        """What each passage gets from as many neighbours as the setting says. *Shape:* (n, b)."""
        count = int(setting["neighbours"])
        logits = self.cosines[:, :count] / np.float32(setting["temperature"])
        shares = np.exp(logits - logits[:, :1])
        shares /= shares.sum(axis=1, keepdims=True)
        near = self.place < count
        found = np.zeros(self.passages.shape, dtype=np.float32)
        np.add.at(found, (self.query[near], self.column[near]), shares[self.query[near], self.place[near]])
        return found


def with_log(run: Ranking, near: NearLabels, unit: float) -> Candidates:
    """The passages of M_de's run and the labelled ones of the neighbours, with s'(q, p).

    A passage that the run does not have counts as its last one, which it is at most. *Shape:* run (n, k) both.
    """
    passages, in_run, in_log = union(run[0], near.passages)
    last = np.where(run[0] >= 0, run[1], np.inf).min(axis=1, initial=np.inf).astype(np.float32)
    base, nothing = taken(in_run, run[1], last), np.zeros(len(passages), dtype=np.float32)

    def scores(setting: Setting) -> Scores:
        weight = np.float32(float(setting["weight"]) * unit)
        found = base + weight * taken(in_log, near.shares(setting), nothing)
        return np.where(passages < 0, NOTHING, found).astype(np.float32)

    return passages, scores


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
        """Map what `save` wrote."""
        try:
            vectors, starts, passages = (np.load(folder / name, mmap_mode="r") for name in (VECTORS, STARTS, PASSAGES))
        except FileNotFoundError as error:
            raise not_built(error.filename) from error
        return cls(vectors=vectors, starts=starts, passages=passages)

    def look_up(self, queries: Matrix, neighbours: int) -> NearLabels:
        """The labelled passages of each query's nearest labelled queries, by cosine. *Shape:* queries (n, d)."""
        n = len(queries)
        if len(self.vectors) == 0:
            none = np.empty(0, np.int64)
            passages, cosines = np.empty((n, 0), np.int64), np.empty((n, 0), np.float32)
            return NearLabels(passages=passages, cosines=cosines, query=none, column=none, place=none)
        nearest, cosines = block_top_k(self.vectors, of_length_1(queries), neighbours)
        lengths = np.diff(self.starts)[nearest]
        labels, _ = spans(self.starts[nearest].reshape(-1), lengths.reshape(-1))
        query = np.repeat(np.arange(n), lengths.sum(axis=1))
        place = np.repeat(np.broadcast_to(np.arange(nearest.shape[1]), nearest.shape).reshape(-1), lengths.reshape(-1))
        size = 1 + int(self.passages.max())
        keys, which = np.unique(query * size + self.passages[labels], return_inverse=True)
        of, rows = np.divmod(keys, size)
        column = np.arange(len(keys)) - np.searchsorted(of, of)  # `of` ascends: the number within its query
        passages = np.full((n, int(column.max(initial=-1)) + 1), -1)
        passages[of, column] = rows
        return NearLabels(passages=passages, cosines=cosines, query=query, column=column[which], place=place)
