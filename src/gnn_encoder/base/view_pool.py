"""What the scores of a passage's views make together: their maximum or their mean."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

PoolKind = Literal["max", "mean"]  # how the scores of a passage's views make its score


@dataclass(frozen=True)
class Pool:
    """The score of a passage with views d_j^1 ... d_j^v for a query q, from s_i = q^T d_j^i.

    max   s(q, d_j) = max_i s_i        (Dual-Cross-Encoder Eq. 11)
    mean  s(q, d_j) = sum_i w_i s_i = q^T (sum_i w_i d_j^i): one vector a passage does it; w_i = 1/v, or `plain` for the
          first view, which is the passage alone, and what is left for the others in equal parts
    """

    kind: PoolKind = "max"
    plain: float | None = None  # weight of the first view in the mean; None: as that of any other

    def scores(self, of_views: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scores of passages from those of their views. *Shape:* (..., views) -> (...)."""
        best = self.kind == "max"
        found: NDArray[np.float32] = of_views.max(axis=-1) if best else of_views @ self.weights(of_views.shape[-1])
        return found

    def weights(self, views: int) -> NDArray[np.float32]:
        """Of the views in their mean; they sum to 1. *Shape:* (views,)."""
        weights = np.full(views, 1 / views, dtype=np.float32)
        if self.plain is not None and views > 1:
            weights[0], weights[1:] = self.plain, (1 - self.plain) / (views - 1)
        return weights


BEST = Pool()
