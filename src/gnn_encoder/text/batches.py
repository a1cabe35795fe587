"""Batches: rows of texts, or of pairs of them, padded among rows of similar length; and how they are encoded."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gnn_encoder.base.matrix import Matrix, Rows
from gnn_encoder.text.tokens import Template, TextTokens

Length = TypeVar("Length", int, NDArray[np.int64])
WINDOW = 8_192  # rows that are sorted, encoded and written together; a kill loses one window at most
FULL = 24  # a full batch's tokens in units of what any batch costs besides: on a CPU about 128 of 3,072


def send(tensor: Tensor, place: torch.device) -> Tensor:
    """A tensor of the CPU on another device. A GPU is not waited for: what is pinned is copied while it computes."""
    return tensor.pin_memory().to(place, non_blocking=True) if place.type == "cuda" else tensor.to(place)


def padded(length: Length) -> Length:
    """`length` rounded up to a multiple of 8, so that batches have few shapes and kernels are built once for each."""
    return -(-length // 8) * 8


@dataclass(frozen=True)
class Batch:
    """Padded token ids of n texts. *Shape:* each field (n, tokens)."""

    input_ids: Tensor
    attention_mask: Tensor
    token_type_ids: Tensor

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each text. *Shape:* (n,)."""
        return np.asarray(self.attention_mask.sum(dim=1))

    def part(self, rows: NDArray[np.int64]) -> "Batch":
        """Some of the texts, in the order of `rows`, padded to the longest of them."""
        width, taken = padded(int(self.lengths[rows].max())), torch.from_numpy(rows)
        return Batch(*(field[taken, :width] for field in vars(self).values()))

    def arguments(self, model: nn.Module) -> dict[str, Tensor]:
        """Keyword arguments to call `model` with, on its device; without token types where it distinguishes none."""
        place = next(model.parameters()).device
        arguments = {name: send(field, place) for name, field in vars(self).items()}
        if getattr(model.config, "type_vocab_size", 0) <= 1:
            del arguments["token_type_ids"]
        return arguments


def length_batches(
    lengths: NDArray[np.integer[Any]], batch_tokens: int, fixed: int | None = None
) -> list[NDArray[np.int64]]:
    """Split texts into batches of at most `batch_tokens` padded tokens, longest first: what does not fit fails at once.

    Batches of equal width have equal size, but for the last, as torch caches memory for every shape that it meets. With
    `fixed`, what a batch costs besides its tokens, a batch ends early where its rest costs less as one more.

    *Shape:* lengths (n,) -> arrays of positions 0..n-1; each position is in exactly one.
    """
    order = np.argsort(-lengths.astype(np.int64), kind="stable")
    widths = padded(np.maximum(1, lengths[order].astype(np.int64)))
    batches, first = [], 0
    while first < len(order):
        batch = widths[first : first + max(1, batch_tokens // int(widths[first]))]
        size = len(batch)
        while fixed is not None:  # the best end of the batch, then that of what is left of it
            spared = (size - np.arange(size)) * (batch[0] - batch[:size])
            end = int(spared.argmax())
            if spared[end] <= fixed:
                break
            size = end
        batches.append(order[first : first + size])
        first += size
    return batches


def encode_by_length(encode: Callable[[Batch], Tensor], batch: Batch, batch_tokens: int) -> Tensor:
    """What `encode` makes of a batch in parts of similar length, in one graph. *Shape:* n texts -> (n, ...)."""
    parts = length_batches(batch.lengths, batch_tokens, batch_tokens // FULL)
    found = torch.cat([encode(batch.part(part)) for part in parts])
    return found[torch.from_numpy(np.concatenate(parts)).argsort().to(found.device)]


NO_TEXT = TextTokens.of_ids([[]])  # one text without tokens


@dataclass(frozen=True)
class Inputs:
    """Rows that become batches: each a pair of texts, or where `first` is `NO_TEXT`, the second alone."""

    first: TextTokens
    second: TextTokens
    size: int
    rows_of: Callable[[Rows], tuple[Rows, Rows]]  # of texts in `first` and in `second`
    template: Template
    length: int  # most tokens, special ones included
    views: int = 1  # rows of a passage, one behind the other

    @classmethod
    def singles(cls, tokens: TextTokens, template: Template, length: int) -> Self:
        """Single texts of at most `length` tokens: row r is text r."""
        return cls(NO_TEXT, tokens, len(tokens), lambda rows: (np.zeros_like(rows), rows), template, length)

    @classmethod
    def pairs(
        cls, first: TextTokens, first_rows: Rows, second: TextTokens, second_rows: Rows, template: Template, length: int
    ) -> Self:
        """Row r is pair r. *Shape:* rows (n,) both."""
        return cls(first, second, len(first_rows), lambda rows: (first_rows[rows], second_rows[rows]), template, length)

    def __len__(self) -> int:
        return self.size

    def lengths(self, rows: Rows) -> NDArray[np.int64]:
        """Tokens of each row without special ones; batches are sorted by this. *Shape:* (n,)."""
        first, second = self.rows_of(rows)
        return np.asarray(np.minimum(self.first.lengths(first) + self.second.lengths(second), self.length))

    def is_cut(self, rows: Rows) -> NDArray[np.bool_]:
        """Which single texts are longer than `length` together with their special tokens. *Shape:* (n,)."""
        specials = len(self.template.single_prefix) + len(self.template.single_suffix)
        return np.asarray(self.second.lengths(rows) + specials > self.length)

    def batch(self, rows: Rows | None = None) -> Batch:
        """Some rows, or all, with their special tokens, padded. *Shape:* (n,) -> (n, tokens).

        Of a pair that is too long the longer text is cut first, as by `longest_first` of the tokenizers library: an odd
        last token goes to the longer one, or to the second of two equal ones.
        """
        first_rows, second_rows = self.rows_of(np.arange(len(self)) if rows is None else rows)
        is_pair, around = self.first is not NO_TEXT, self.template.special
        special = np.repeat(np.arange(3)[:, None] + (0 if is_pair else 3), len(second_rows), axis=1)
        before, between, behind = around.lengths(special)  # the texts
        a, b = self.first.lengths(first_rows), self.second.lengths(second_rows)
        room = self.length - before - between - behind
        shorter = np.minimum(np.minimum(a, b), room // 2)
        longer = np.minimum(np.maximum(a, b), room - shorter)
        a, b = np.where(a > b, (longer, shorter), (shorter, longer))
        lengths = np.stack([before, a, between, b, behind])
        ends = lengths.cumsum(axis=0)
        column = np.arange(min(self.length, padded(int(ends[-1].max()))))
        ids = np.full((len(second_rows), len(column)), self.template.pad, dtype=np.int64)
        texts = around, self.first, around, self.second, around
        rows_in = special[0], first_rows, special[1], second_rows, special[2]
        for tokens, taken, count, end in zip(texts, rows_in, lengths, ends, strict=True):
            tokens.fill(ids, taken, count, end - count)
        mask = column < ends[-1][:, None]
        types = np.where(mask & (column >= ends[2][:, None]), self.template.second_type if is_pair else 0, 0)
        return Batch(*map(torch.from_numpy, (ids, mask.astype(np.int64), types)))


def single_batch(tokens: TextTokens, rows: Rows, template: Template, max_length: int) -> Batch:
    """Texts alone with their special tokens, cut to `max_length` tokens in all. *Shape:* rows (n,) -> (n, tokens)."""
    return Inputs.singles(tokens, template, max_length).batch(rows)


Prepared = list[tuple[NDArray[np.int64], Batch]]


def prepare_rows(inputs: Inputs, rows: Rows, batch_tokens: int) -> Prepared:
    """The padded batches of some rows, longest first; the memory of the tokens that were read is given back."""
    parts = length_batches(inputs.lengths(rows), batch_tokens)
    prepared = [(part, inputs.batch(rows[part])) for part in parts]
    inputs.first.release()
    inputs.second.release()
    return prepared


@torch.inference_mode()
def encode_prepared(prepared: Prepared, encode: Callable[[Batch], Tensor]) -> Matrix:
    """Run the model over prepared batches and put what it gives back into the rows' order. *Shape:* (n, ...)."""
    vectors = torch.cat([encode(batch).float() for _, batch in prepared])
    order = np.concatenate([rows for rows, _ in prepared]).argsort()
    return vectors[torch.from_numpy(order).to(vectors.device)].cpu().numpy()


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
    """Yield (number, what `encode` makes of its rows) for some windows; w holds `window` rows from w * `window` on.

    A thread makes the batches of the next one meanwhile, so that the GPU need not wait.
    """

    def prepare(number: int) -> Prepared:
        rows = np.arange(number * window, min(len(inputs), (number + 1) * window))
        return prepare_rows(inputs, rows, batch_tokens)

    with ThreadPoolExecutor(max_workers=1) as pool:
        begun: Iterator[Any] = ((number, pool.submit(prepare, number)) for number in numbers)
        for (number, prepared), _ in pairwise(chain(begun, [None])):  # the next one is begun before this is waited for
            yield number, encode_prepared(prepared.result(), encode)
