"""Logged queries with the passages that they are labelled with, looked up by similarity to a query.

The idea is LADER's (Jin, Shin and Lu, SIGIR 2023): what is relevant for a similar query may be relevant for this one.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.rows import Matrix, Rows, Scores
from gnn_encoder.index.exact import block_top_k

VECTORS, STARTS, PASSAGES = "vectors.npy", "starts.npy", "passages.npy"


@dataclass(frozen=True, kw_only=True)
class Given:
    """What the labelled passages of similar logged queries get; row by row a passage of a neighbour of a query.

    *Shape:* all (g,): row of the query, row of the passage, place of the neighbour from 0, its similarity.
    """

    query: Rows
    passage: Rows
    place: Rows
    similarity: Scores


@dataclass(frozen=True, kw_only=True)
class QueryLog:
    """The training queries that have a label.

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
        """Write the log as arrays that can be mapped."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in ((VECTORS, self.vectors), (STARTS, self.starts), (PASSAGES, self.passages)):
            np.save(folder / name, array)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Map a saved log.

        Raises:
            UserError: a file is missing.
        """
        try:
            vectors, starts, passages = (np.load(folder / name, mmap_mode="r") for name in (VECTORS, STARTS, PASSAGES))
        except FileNotFoundError as error:
            raise UserError(
                f"{error.filename}: no such file; run the stage that makes it first (`dvc repro`)"
            ) from error
        return cls(vectors=vectors, starts=starts, passages=passages)

    @property
    def bytes(self) -> int:
        """Size of the log."""
        return self.vectors.nbytes + self.starts.nbytes + self.passages.nbytes

    def look_up(self, queries: Matrix, neighbours: int) -> Given:
        """The labelled passages of each query's nearest logged queries, by cosine. *Shape:* queries (n, d)."""
        if len(self.vectors) == 0:
            none = np.empty(0, np.int64)
            return Given(query=none, passage=none, place=none, similarity=np.empty(0, np.float32))
        nearest, cosines = block_top_k(self.vectors, of_length_1(queries), neighbours)
        lengths = np.diff(self.starts)[nearest]
        total, each = int(lengths.sum()), lengths.reshape(-1)
        within = np.arange(total) - np.repeat(np.cumsum(each) - each, each)
        place = np.broadcast_to(np.arange(nearest.shape[1]), nearest.shape).reshape(-1)
        return Given(
            query=np.repeat(np.arange(len(queries)), lengths.sum(axis=1)),
            passage=np.asarray(self.passages[np.repeat(self.starts[nearest].reshape(-1), each) + within]),
            place=np.repeat(place, each),
            similarity=np.repeat(cosines.reshape(-1), each),
        )


def of_length_1(vectors: Matrix) -> Matrix:
    """Vectors divided by their length; a vector of length 0 stays. *Shape:* (n, d) -> (n, d)."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    result: Matrix = np.divide(vectors, length, out=np.zeros_like(vectors, dtype=np.float32), where=length > 0)
    return result
