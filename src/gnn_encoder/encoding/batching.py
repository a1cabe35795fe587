"""Batches of like length: texts of a window are sorted, so that little of a batch is padding."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.encoding.tokens import padded


def length_batches(lengths: NDArray[np.integer[Any]], batch_tokens: int) -> list[NDArray[np.int64]]:
    """Split texts into batches of at most `batch_tokens` padded tokens, longest first.

    The longest come first so that a batch that does not fit in memory fails at once. All batches of one width have one
    size, but for a window's last: torch keeps what it makes for a shape, and many shapes would be memory that grows.

    *Shape:* lengths (n,) -> positions 0..n-1, each in one batch.
    """
    order = np.argsort(-lengths.astype(np.int64), kind="stable")
    batches, first = [], 0
    while first < len(order):
        width = padded(max(1, int(lengths[order[first]])))
        size = max(1, batch_tokens // width)
        batches.append(order[first : first + size])
        first += size
    return batches
