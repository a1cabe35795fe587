"""Rows that a model encodes, in batches of similar length, so that little is padding; results keep the rows' order."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnn_encoder.base.matrix import Matrix, Rows
from gnn_encoder.text.batches import Batch, length_batches
from gnn_encoder.text.tokens import Template, TextTokens, text_batch

WINDOW = 8_192  # rows that are sorted, encoded and written together; a kill loses one window at most

Prepared = list[tuple[NDArray[np.int64], Batch]]


@dataclass(frozen=True)
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
        return cls(tokens, tokens, len(tokens), lambda rows: (np.full(len(rows), -1), rows), template, length, length)

    @classmethod
    def pairs(
        cls, first: TextTokens, first_rows: Rows, second: TextTokens, second_rows: Rows, template: Template, length: int
    ) -> Self:
        """Pairs of at most `length` tokens: row r is pair r. *Shape:* rows (n,) both."""
        size, rows_of = len(first_rows), lambda rows: (first_rows[rows], second_rows[rows])
        return cls(first, second, size, rows_of, template, length, length)

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
        return text_batch(self.first, first, self.second, second, self.template, self.pair_length, self.single_length)

    def release(self) -> None:
        """Give back the memory of the mapped tokens that were read."""
        self.first.release()
        self.second.release()


def prepare_rows(inputs: Inputs, rows: Rows, batch_tokens: int) -> Prepared:
    """The padded batches of some rows, longest first; the memory of the tokens that were read is given back."""
    parts = length_batches(inputs.lengths(rows), batch_tokens)
    prepared = [(positions, inputs.batch(rows[positions])) for positions in parts]
    inputs.release()
    return prepared


@torch.inference_mode()
def encode_prepared(prepared: Prepared, encode: Callable[[Batch], Tensor]) -> Matrix:
    """Run the model over prepared batches and put the vectors back into the rows' order. *Shape:* (n, d)."""
    vectors = torch.cat([encode(batch).float() for _, batch in prepared])
    result = torch.empty_like(vectors)
    result[torch.from_numpy(np.concatenate([rows for rows, _ in prepared])).to(vectors.device)] = vectors
    return result.cpu().numpy()


def encode_rows(
    inputs: Inputs, rows: Rows, encode: Callable[[Batch], Tensor], batch_tokens: int, columns: int
) -> Matrix:
    """What `encode` makes of some rows, in their order. *Shape:* rows (n,) -> (n, columns)."""
    if len(rows) == 0:
        return np.empty((0, columns), dtype=np.float32)
    return encode_prepared(prepare_rows(inputs, rows, batch_tokens), encode)


def encode_windows(
    inputs: Inputs, encode: Callable[[Batch], Tensor], batch_tokens: int, window: int, numbers: Iterable[int]
) -> Iterator[tuple[int, Matrix]]:
    """Yield (number, what `encode` makes of its rows) for some windows; w holds `window` rows from w * `window` on."""

    def prepare(number: int) -> Prepared:
        rows = np.arange(number * window, min(len(inputs), (number + 1) * window))
        return prepare_rows(inputs, rows, batch_tokens)

    for number, prepared in prefetch(prepare, numbers):
        yield number, encode_prepared(prepared, encode)


def prefetch(make: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield (item, make(item)) of each item. A thread makes the next one meanwhile, so that the GPU need not wait."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        waiting: list[tuple[Any, Future[Any]]] = []
        for item in items:
            waiting.append((item, pool.submit(make, item)))
            if len(waiting) == 2:
                first, made = waiting.pop(0)
                yield first, made.result()
        yield from ((item, made.result()) for item, made in waiting)
