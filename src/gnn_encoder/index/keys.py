"""A passage's score and row as one whole number: of several, the least is the best, of equal scores the lower row.

So one selection of the k least numbers finds the best passages with their ties, in NumPy as in torch.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.base.matrix import Rows, Scores

Keys = NDArray[np.int64]  # or a torch.Tensor of int64
HALF, MOST = 2**32 - 1, 2**31 - 1  # the lower 32 bits of a number, and all of an int32 but its sign
MISSING = np.finfo(np.float32).min  # FAISS's score where it found nothing


def pack(rows: Any, bits: Any) -> Any:
    """Keys of rows (-1: none) and the bits of their scores, int64 both. *Shape:* any, the same -> that.

    The bits of a negative float grow as it falls: all but its sign are turned round, so that whole numbers compare as
    the scores do. Then all bits are turned round, since the largest score is the best.
    """
    return (~(bits ^ ((bits >> 31) & MOST)) << 32) | (rows + 1)


def of_scores(rows: Rows, scores: Scores) -> Keys:
    """Keys of rows and finite scores. *Shape:* any, the same -> that."""
    found: Keys = pack(rows, (scores + np.float32(0)).view(np.int32).astype(np.int64))  # 0 is added, since -0 equals it
    return found


NOTHING = int(of_scores(np.array(-1), np.array(MISSING)))


def unpack(keys: Keys) -> tuple[Rows, Scores]:
    """What `of_scores` has packed. *Shape:* any -> that, both."""
    order = ~(keys >> 32)
    return (keys & HALF) - 1, (order ^ ((order >> 31) & MOST)).astype(np.int32).view(np.float32)


def least(keys: Keys, k: int) -> Keys:
    """The min(k, c) best keys of each query, in any order. *Shape:* (n, c) -> (n, min(k, c))."""
    return keys if keys.shape[1] <= k else np.partition(keys, k - 1, axis=1)[:, :k]


def once(keys: Any, sort: Any) -> Any:
    """Leave each row its best key and put NOTHING in place of its others. *Shape:* (n, c) -> (n, c), in any order.

    Args:
        sort: np.sort, or a function of torch that does the same.
    """
    by_row = sort(((keys & HALF) << 32) | ((keys >> 32) + MOST + 1))
    found = (((by_row & HALF) - MOST - 1) << 32) | (by_row >> 32)
    found[:, 1:][(by_row[:, 1:] >> 32) == (by_row[:, :-1] >> 32)] = NOTHING
    return found
