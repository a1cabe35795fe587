"""Rows that a model encodes: single texts, or pairs of texts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.core.rows import Rows
from gnn_encoder.encoding.tokens import TextTokens, pair_batch, single_batch
from gnn_encoder.models.batch import Batch, Template


class Inputs(Protocol):
    """Rows that become batches. *Shape:* rows (n,)."""

    def __len__(self) -> int:
        """How many rows there are."""

    def lengths(self, rows: Rows) -> NDArray[np.int64]:
        """Tokens of each row without special ones; batches are sorted by this. *Shape:* (n,)."""

    def batch(self, rows: Rows) -> Batch:
        """The rows, padded. *Shape:* (n, tokens)."""

    def release(self) -> None:
        """Give back the memory of the mapped tokens that were read."""


@dataclass(frozen=True, kw_only=True)
class Singles:
    """Single texts: row r is text r."""

    tokens: TextTokens
    template: Template
    max_length: int  # special tokens included

    def __len__(self) -> int:
        return len(self.tokens)

    def lengths(self, rows: Rows) -> NDArray[np.int64]:
        """As `Inputs`."""
        return self.tokens.lengths(rows, self.max_length)

    def is_cut(self, rows: Rows) -> NDArray[np.bool_]:
        """Which texts are longer than `max_length` together with their special tokens. *Shape:* (n,)."""
        specials = len(self.template.prefix) + len(self.template.single_suffix)
        cut: NDArray[np.bool_] = self.tokens.lengths(rows) + specials > self.max_length
        return cut

    def batch(self, rows: Rows) -> Batch:
        """As `Inputs`."""
        return single_batch(self.tokens, rows, self.template, self.max_length)

    def release(self) -> None:
        """As `Inputs`."""
        self.tokens.release()


@dataclass(frozen=True, kw_only=True)
class Couples:
    """Pairs of texts. `rows_of` maps rows to the rows of their texts in `first` and in `second`."""

    first: TextTokens
    second: TextTokens
    size: int
    rows_of: Callable[[Rows], tuple[Rows, Rows]]
    template: Template
    max_length: int  # special tokens included

    def __len__(self) -> int:
        return self.size

    def lengths(self, rows: Rows) -> NDArray[np.int64]:
        """As `Inputs`."""
        first, second = self.rows_of(rows)
        lengths = self.first.lengths(first, self.max_length) + self.second.lengths(second, self.max_length)
        cut: NDArray[np.int64] = np.minimum(lengths, self.max_length)
        return cut

    def batch(self, rows: Rows) -> Batch:
        """As `Inputs`."""
        first, second = self.rows_of(rows)
        return pair_batch(self.first, first, self.second, second, self.template, self.max_length)

    def release(self) -> None:
        """As `Inputs`."""
        self.first.release()
        self.second.release()
