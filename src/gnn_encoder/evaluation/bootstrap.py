"""The bootstrap over queries: means of samples that are drawn with replacement."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def resampled_means(values: Floats, *, resamples: int, seed: int, at_a_time: int) -> Floats:
    """Column means of samples of the rows, each drawn with replacement and as large as `values`.

    All columns share the draws.

    Args:
        resamples: number of samples.
        at_a_time: resamples in memory together. The draws do not depend on it, but the means' last bits may: BLAS adds
            up the rows at the edge of a matrix in another order. Each caller therefore always passes the same number.

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
