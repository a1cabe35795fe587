"""What the scores of a passage's views make together: their maximum, their mean, or a softmax between the two."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Pool:
    """The score of a passage with views d_j^1 ... d_j^v for a query q, from s_i = q^T d_j^i.

    max      s(q, d_j) = max_i s_i        (Dual-Cross-Encoder Eq. 11)
    mean     s(q, d_j) = 1/v sum_i s_i = q^T (1/v sum_i d_j^i): one vector a passage does it
    softmax  s(q, d_j) = sum_i a_i s_i,  a = softmax(s / temperature): near the maximum where the temperature is low,
             near the mean where it is high
    """

    kind: Literal["max", "mean", "softmax"] = "max"
    temperature: float = 1.0  # of the softmax

    def scores(self, of_views: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scores of passages from those of their views. *Shape:* (..., views) -> (...)."""
        if self.kind == "max":
            found: NDArray[np.float32] = of_views.max(axis=-1)
        elif self.kind == "mean":
            found = of_views.mean(axis=-1)
        else:
            weights = np.exp((of_views - of_views.max(axis=-1, keepdims=True)) / self.temperature)
            found = (weights * of_views).sum(axis=-1) / weights.sum(axis=-1)
        return found


BEST = Pool()


def pool_of(softmax: float | None) -> Pool:
    """The pool of a matrix or an index of views: a softmax of this temperature, or the maximum."""
    return BEST if softmax is None else Pool("softmax", softmax)
