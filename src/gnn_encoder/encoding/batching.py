"""Batches of similar length: texts are sorted by length, so that little of a batch is padding."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnn_encoder.encoding.tokens import padded
from gnn_encoder.models.batch import Batch


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


def encode_by_length(encode: Callable[[Batch], Tensor], batch: Batch, batch_tokens: int) -> Tensor:
    """What `encode` makes of a batch, which it is given in parts of similar length, each as wide as its longest text.

    The parts share one autograd graph, so that they take the memory of the batch less its padding.

    *Shape:* n texts -> (n, ...), in the batch's order.
    """
    parts = length_batches(batch.attention_mask.sum(dim=1).numpy(), batch_tokens)
    if len(parts) == 1:
        return encode(batch)
    rows = [torch.from_numpy(part) for part in parts]
    found = torch.cat([encode(batch.part(part, padded(int(batch.attention_mask[part[0]].sum())))) for part in rows])
    return found[torch.cat(rows).argsort().to(found.device)]
