"""Batches of like length: texts of a window are sorted, so that little of a batch is padding."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def length_batches(lengths: NDArray[np.integer[Any]], batch_tokens: int) -> list[NDArray[np.int64]]:
    """Split texts into batches of at most `batch_tokens` padded tokens, longest first.

    The longest come first so that a batch that does not fit in memory fails at once.

    *Shape:* lengths (n,) -> positions 0..n-1, each in one batch.
    """
    order = np.argsort(-lengths.astype(np.int64), kind="stable")
    batches, first = [], 0
    while first < len(order):
        longest = max(1, int(lengths[order[first]]))
        size = max(1, batch_tokens // longest)
        batches.append(order[first : first + size])
        first += size
    return batches
