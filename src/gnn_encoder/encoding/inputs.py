"""Rows that a model encodes: single texts, pairs of texts, or some of both."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base.matrix import Rows
from gnn_encoder.encoding.tokens import TextTokens, text_batch
from gnn_encoder.models.batch import Batch, Template


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Rows that become batches: each is a pair of texts, or a second text alone.

    `rows_of` maps rows to the rows of their texts in `first`, where -1 is none, and in `second`.
    """

    first: TextTokens
    second: TextTokens
    size: int
    rows_of: Callable[[Rows], tuple[Rows, Rows]]
    template: Template
    pair_length: int  # most tokens of a pair, special ones included
    single_length: int  # the same of a text alone

    @classmethod
    def singles(cls, tokens: TextTokens, template: Template, length: int) -> Self:
        """Single texts of at most `length` tokens: row r is text r."""
        return cls(
            first=tokens,
            second=tokens,
            size=len(tokens),
            rows_of=lambda rows: (np.full(len(rows), -1), rows),
            template=template,
            pair_length=length,
            single_length=length,
        )

    @classmethod
    def pairs(
        cls, first: TextTokens, first_rows: Rows, second: TextTokens, second_rows: Rows, template: Template, length: int
    ) -> Self:
        """Pairs of at most `length` tokens: row r is pair r. *Shape:* rows (n,) both."""
        return cls(
            first=first,
            second=second,
            size=len(first_rows),
            rows_of=lambda rows: (first_rows[rows], second_rows[rows]),
            template=template,
            pair_length=length,
            single_length=length,
        )

    @classmethod
    def of_table(
        cls, table: pl.DataFrame, queries: TextTokens, passages: TextTokens, template: Template, length: int
    ) -> Self:
        """The pairs of a table with the columns query and passage."""
        query, passage = (table[name].to_numpy().astype(np.int64) for name in ("query", "passage"))
        return cls.pairs(queries, query, passages, passage, template, length)

    def __len__(self) -> int:
        return self.size

    def lengths(self, rows: Rows) -> NDArray[np.int64]:
        """Tokens of each row without special ones; batches are sorted by this. *Shape:* (n,)."""
        first, second = self.rows_of(rows)
        of_second = self.second.lengths(second)
        pair = np.minimum(self.first.lengths(first) + of_second, self.pair_length)
        lengths: NDArray[np.int64] = np.where(first < 0, np.minimum(of_second, self.single_length), pair)
        return lengths

    def is_cut(self, rows: Rows) -> NDArray[np.bool_]:
        """Which single texts are longer than `single_length` together with their special tokens. *Shape:* (n,)."""
        specials = len(self.template.prefix) + len(self.template.single_suffix)
        cut: NDArray[np.bool_] = self.second.lengths(rows) + specials > self.single_length
        return cut

    def batch(self, rows: Rows) -> Batch:
        """The rows, padded. *Shape:* (n,) -> (n, tokens)."""
        first, second = self.rows_of(rows)
        lengths = self.pair_length, self.single_length
        return text_batch(self.first, first, self.second, second, self.template, *lengths)

    def release(self) -> None:
        """Give back the memory of the mapped tokens that were read."""
        self.first.release()
        self.second.release()
