"""Soft targets: how the teacher weighs a query's passages, in place of one labelled positive against all the others."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.core.records import TARGETS, open_table
from gnn_encoder.core.rows import Rows

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Targets:
    """The passages that the teacher scored for some queries, list after list.

    List i is `passages[offsets[i] : offsets[i + 1]]`, with the teacher's log odds in the same places of `logits`.
    """

    passages: Rows
    logits: Floats
    offsets: Rows

    @classmethod
    def read(cls, path: Path, queries: Rows) -> Self:
        """The lists of some rows of the training queries, which must be ascending.

        Raises:
            UserError: the file is missing, or is no TARGETS table.
        """
        open_table(path, TARGETS)
        table = (
            pl.read_parquet(path)
            .filter(pl.col("query").is_in(pl.Series(queries, dtype=pl.Int32).implode()))
            .sort("query", "passage")
        )
        ends = np.searchsorted(table["query"].to_numpy(), queries, side="right")
        passages = table["passage"].to_numpy().astype(np.int64)
        return cls(passages, table["logit"].to_numpy(), np.concatenate([[0], ends]))

    def draw(
        self, items: Rows, positives: Rows, count: int, n_passages: int, generator: np.random.Generator
    ) -> tuple[Rows, Floats]:
        """Other passages of each list than its positive, drawn at random, and the weights of all.

        A list that is too short is filled up with passages of the corpus at random, whose weight is 0.

        Args:
            items: lists to draw from.
            positives: a passage of each list; one that the teacher did not score has all the weight.

        Returns:
            Passages *Shape:* (n, count), and p(positive), p(passages): the softmax of their log odds, which sums to 1
            *Shape:* (n, 1 + count).
        """
        first, sizes = self.offsets[items], self.offsets[items + 1] - self.offsets[items]
        place = np.arange(max(1, int(sizes.max(initial=0))))
        inside = place < sizes[:, None]
        at = np.where(inside, first[:, None] + place, 0)
        listed, logits = self.passages[at], self.logits[at]
        own = inside & (listed == positives[:, None])
        order = np.argsort(np.where(inside & ~own, generator.random(listed.shape), np.inf), axis=1)[:, :count]
        taken = np.take_along_axis(inside & ~own, order, axis=1)
        drawn = generator.integers(n_passages, size=(len(items), count))
        drawn[:, : order.shape[1]][taken] = np.take_along_axis(listed, order, axis=1)[taken]
        odds = np.full((len(items), 1 + count), -np.inf, dtype=np.float32)
        odds[:, 0] = np.where(own, logits, -np.inf).max(axis=1)
        odds[:, 1 : 1 + order.shape[1]][taken] = np.take_along_axis(logits, order, axis=1)[taken]
        odds[~own.any(axis=1)] = [0.0, *([-np.inf] * count)]
        odds = np.exp(odds - odds.max(axis=1, keepdims=True))
        return drawn, odds / odds.sum(axis=1, keepdims=True)
