"""The bootstrap over queries: means of samples that are drawn with replacement."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def resampled_means(values: Floats, *, resamples: int, seed: int, at_a_time: int) -> Floats:
    """Column means of as many rows drawn with replacement, again and again; all columns share the draws.

    Args:
        at_a_time: resamples in memory together. The draws do not depend on it. The means' last bits may: BLAS adds up
            the rows at the edge of a matrix in another order. So each caller keeps a number of its own.

    *Shape:* (queries, columns) -> (resamples, columns).
    """
    rows = len(values)
    generator = np.random.default_rng(seed)
    means = np.empty((resamples, values.shape[1]))
    for first in range(0, resamples, at_a_time):
        size = min(at_a_time, resamples - first)
        counts = generator.multinomial(rows, np.full(rows, 1 / rows), size=size)  # how often each row is drawn
        means[first : first + size] = counts @ values / rows
    return means
