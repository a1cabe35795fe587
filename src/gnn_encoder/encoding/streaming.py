"""Encoding texts in batches of similar length, so that little is padding; more than fit in memory window by window.

Results are in the order of the rows.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnn_encoder.base.matrix import Rows
from gnn_encoder.encoding.inputs import Inputs
from gnn_encoder.models.batch import Batch, padded

WINDOW = 8_192  # rows that are sorted, encoded and written together; a kill loses one window at most
FULL = 24  # a full batch's tokens in units of what any batch costs besides: on a CPU about 128 of 3,072

Prepared = list[tuple[NDArray[np.int64], Batch]]


def length_batches(
    lengths: NDArray[np.integer[Any]], batch_tokens: int, fixed: int | None = None
) -> list[NDArray[np.int64]]:
    """Split texts into batches of at most `batch_tokens` padded tokens, longest first.

    The longest come first so that a batch that does not fit in memory fails at once. Batches of equal width have equal
    size (only the window's last may be smaller), because torch caches memory for every shape that it meets.

    Args:
        fixed: what a batch costs besides its tokens, in tokens; a batch ends early where its rest costs less as one
            more batch, narrower. None: none ends early.

    *Shape:* lengths (n,) -> arrays of positions 0..n-1; each position is in exactly one.
    """
    order = np.argsort(-lengths.astype(np.int64), kind="stable")
    widths = padded(np.maximum(1, lengths[order].astype(np.int64)))
    batches, first = [], 0
    while first < len(order):
        batch = widths[first : first + max(1, batch_tokens // int(widths[first]))]
        size = len(batch) if fixed is None else _ends(batch, fixed)
        batches.append(order[first : first + size])
        first += size
    return batches


def _ends(widths: NDArray[np.int64], fixed: int) -> int:
    """Where a batch of texts, widest first, ends early. *Shape:* widths (n,) -> 1..n."""
    size = len(widths)
    while True:
        spared = (size - np.arange(size)) * (widths[0] - widths[:size])
        best = int(spared.argmax())
        if spared[best] <= fixed:
            return size
        size = best


def encode_by_length(encode: Callable[[Batch], Tensor], batch: Batch, batch_tokens: int) -> Tensor:
    """What `encode` makes of a batch, which it is given in parts of similar length, each as wide as its longest text.

    The parts share one autograd graph, so that they take the memory of the batch less its padding. Where a device takes
    few tokens at a time, it works at full speed on few: a part may be small, and nearly without padding.

    *Shape:* n texts -> (n, ...), in the batch's order.
    """
    parts = length_batches(batch.lengths, batch_tokens, batch_tokens // FULL)
    found = torch.cat([encode(batch.part(part)) for part in parts])
    return found[torch.from_numpy(np.concatenate(parts)).argsort().to(found.device)]


def prepare_rows(inputs: Inputs, rows: Rows, batch_tokens: int) -> Prepared:
    """The padded batches of some rows, longest first; the memory of the tokens that were read is given back."""
    parts = length_batches(inputs.lengths(rows), batch_tokens)
    prepared = [(positions, inputs.batch(rows[positions])) for positions in parts]
    inputs.release()
    return prepared


@torch.inference_mode()
def encode_prepared(prepared: Prepared, size: int, encode: Callable[[Batch], Tensor]) -> NDArray[np.float32]:
    """Run the model over prepared batches and put the vectors back into the rows' order. *Shape:* (size, d)."""
    result: Tensor | None = None
    for positions, batch in prepared:
        vectors = encode(batch)
        if result is None:
            result = torch.empty(size, vectors.shape[1], dtype=torch.float32, device=vectors.device)
        result[torch.from_numpy(positions).to(vectors.device)] = vectors.float()
    assert result is not None
    return result.cpu().numpy()


def encode_rows(
    inputs: Inputs, rows: Rows, encode: Callable[[Batch], Tensor], batch_tokens: int, columns: int
) -> NDArray[np.float32]:
    """What `encode` makes of some rows, in their order. *Shape:* rows (n,) -> (n, columns)."""
    if len(rows) == 0:
        return np.empty((0, columns), dtype=np.float32)
    return encode_prepared(prepare_rows(inputs, rows, batch_tokens), len(rows), encode)


def prefetch(make: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield (item, make(item)) of each item. A thread makes the next one meanwhile, so that the GPU need not wait."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        waiting = None
        for item in items:
            following = (item, pool.submit(make, item))
            if waiting is not None:
                yield waiting[0], waiting[1].result()
            waiting = following
        if waiting is not None:
            yield waiting[0], waiting[1].result()
