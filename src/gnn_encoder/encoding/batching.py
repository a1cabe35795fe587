"""Batches of similar length: the texts of a window are sorted by length, so that little of a batch is padding."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.encoding.tokens import padded


def length_batches(lengths: NDArray[np.integer[Any]], batch_tokens: int) -> list[NDArray[np.int64]]:
    """Split texts into batches of at most `batch_tokens` padded tokens, longest first.

    The longest come first so that a batch that does not fit in memory fails at once. Batches of equal width have equal
    size (only the window's last may be smaller), because torch caches memory for every shape that it meets.

    *Shape:* lengths (n,) -> arrays of positions 0..n-1; each position is in exactly one.
    """
    order = np.argsort(-lengths.astype(np.int64), kind="stable")
    batches, first = [], 0
    while first < len(order):
        width = padded(max(1, int(lengths[order[first]])))
        size = max(1, batch_tokens // width)
        batches.append(order[first : first + size])
        first += size
    return batches
