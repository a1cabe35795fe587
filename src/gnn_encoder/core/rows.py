"""Names for arrays that many functions take and return, and the places of runs within an array."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.integer[Any]]  # rows of a table or a matrix, or places in a list, of any integer type; -1: none
Scores = NDArray[np.float32]
Matrix = NDArray[np.float32]  # vectors, one a row


def spans(first: Rows, count: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places first[i] .. first[i] + count[i] - 1 of run after run, and the number i of the run of each.

    *Shape:* (n,) both -> (sum of count,) both.
    """
    run = np.repeat(np.arange(len(count)), count)
    return np.arange(len(run)) + np.repeat(first - (np.cumsum(count) - count), count), run


def of_length_1(vectors: Matrix) -> Matrix:
    """Vectors divided by their length; one of hardly any length becomes 0. *Shape:* (n, d) -> (n, d)."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    result: Matrix = np.divide(vectors, length, out=np.zeros_like(vectors, dtype=np.float32), where=length > 1e-12)
    return result
