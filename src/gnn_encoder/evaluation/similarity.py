"""How similar queries are to their nearest training query, and thirds of them by that similarity."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

THIRDS = ("lower third", "middle third", "upper third")
DECIMALS = 3  # of a similarity: equal queries must not differ by the noise of the arithmetic
PRODUCTS = 2**22  # similarities in memory at a time


def nearest_similarity(queries: NDArray[np.float32], blocks: Iterable[NDArray[np.float32]]) -> NDArray[np.float64]:
    """Cosine of each query with the training query that is nearest to it, rounded to `DECIMALS`.

    Args:
        queries: *Shape:* (n, d).
        blocks: the training queries, some of them at a time. *Shape:* each (any, d), with a row at least.

    *Shape:* (n,).
    """
    queries = _unit(queries)
    nearest = np.full(len(queries), -np.inf, dtype=np.float32)
    for block in map(_unit, blocks):
        size = max(1, PRODUCTS // len(block))
        for first in range(0, len(queries), size):
            part = slice(first, first + size)
            np.maximum(nearest[part], (queries[part] @ block.T).max(axis=1), out=nearest[part])
    return nearest.astype(np.float64).round(DECIMALS)


def thirds(similarities: NDArray[np.float64]) -> tuple[NDArray[np.str_], tuple[float, float]]:
    """The third that each query is in, and the similarities from which on it is the middle and the upper one.

    A third begins at the similarity that stands a third (two thirds) of the way up, so that equal similarities are
    always in the same third, the higher of those that they could be in. With many equal ones thirds differ in size, and
    the lower or the middle one may be empty.

    *Shape:* (n,), with n of 1 or more -> (n,).
    """
    ordered, last = np.sort(similarities), len(similarities) - 1
    middle, upper = (float(ordered[min(last, -(-part * len(ordered) // 3))]) for part in (1, 2))
    names: NDArray[Any] = np.array(THIRDS)
    return names[(similarities >= middle).astype(int) + (similarities >= upper)], (middle, upper)


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Vectors of length 1. *Shape:* (n, d) -> (n, d)."""
    unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit
