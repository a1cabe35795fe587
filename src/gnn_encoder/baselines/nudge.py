"""NUDGE (Zeighami, Wellmer and Parameswaran, ICLR 2025): labelled passages move towards the queries that ask for them.

h'_p = h_p + Delta_p, where Delta_p makes the sum of inner products with the labelled queries largest, within a bound:
NUDGE-M bounds the length of Delta_p by gamma; NUDGE-N bounds its squared length by gamma and keeps h'_p of length 1.
Both have a closed form in c_p, the sum of p's labelled queries, and gamma is chosen on dev. Other passages stay.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base.matrix import Matrix, Rows, Scores, array_blocks, gather, of_length_1
from gnn_encoder.baselines.labelled import Asked

GAMMAS = tuple(0.02 * step for step in range(25))  # the paper's grid for NUDGE-N
ENTRIES = 2**25  # scores of dev pairs that are held at a time


def nudge_m(asked: Asked, gamma: float) -> Matrix:
    """h_p + gamma * c_p / ||c_p||, which is not brought to length 1. *Shape:* (l, d)."""
    return asked.vectors + np.float32(gamma) * of_length_1(asked.sums)


def nudge_n(asked: Asked, gamma: float) -> Matrix:
    """h_p turned towards c_p, by a squared distance of gamma at most; h_p and h'_p have length 1.

    With z the direction of the part of c_p that is at right angles to h_p, and where c_p is not nearer than that:

        h'_p = (1 - gamma / 2) h_p + sqrt(gamma - gamma^2 / 4) z

    A passage from which c_p points away (h_p . c_p < 0) stays, as in the authors' code. *Shape:* (l, d).
    """
    if gamma == 0:
        return asked.vectors
    h_p, direction = asked.vectors, of_length_1(asked.sums)
    cosine = np.einsum("ij,ij->i", h_p, direction)[:, None]
    z = of_length_1(direction - cosine * h_p)
    turned = np.float32(1 - gamma / 2) * h_p + np.float32(np.sqrt(gamma - gamma**2 / 4)) * z
    moved: Matrix = np.where(cosine >= 1 - gamma / 2, direction, turned)
    return np.where(cosine < 0, h_p, moved)


def best_gamma_m(asked: Asked, passages: NDArray[Any], queries: Matrix, pairs: pl.DataFrame) -> float:
    """The gamma of NUDGE-M that puts most dev pairs' passages first, exactly (section 3.2 of the paper).

    A pair (q, x) is right where s_x + gamma g_x is at least s_j + gamma g_j for all passages j, with s = q . h and g
    = q . c / ||c||, 0 where nothing asks for j. So it is right in one interval of gamma; the result is where most
    intervals begin to overlap, 0 if none is.

    Args:
        passages: *Shape:* (m, d).
        queries: dev queries. *Shape:* (q, d).
        pairs: what is relevant for them, columns query, passage.
    """
    others = _best_of_others(passages, asked.passages, queries)
    bounds = list(_intervals(asked, passages, queries, pairs, others))
    low, high = (np.concatenate(parts) for parts in zip(*bounds, strict=True))
    if len(low) == 0:
        return 0.0
    ends = np.concatenate([low, high])
    values, place = np.unique(ends, return_inverse=True)
    signs = np.repeat([1, -1], [len(low), len(high)])
    overlap = np.cumsum(np.bincount(place, weights=signs, minlength=len(values)))
    return float(values[np.argmax(overlap)]) if overlap.max() > 0 else 0.0


def _intervals(
    asked: Asked, passages: NDArray[Any], queries: Matrix, pairs: pl.DataFrame, others: Scores
) -> Iterator[tuple[Scores, Scores]]:
    """Where dev pairs are right: lower and upper ends, without pairs that nowhere are. *Shape:* (p,) each."""
    direction, size = of_length_1(asked.sums), max(1, ENTRIES // (len(asked.passages) + 1))
    for first in range(0, len(pairs), size):
        query, own = (pairs[name].to_numpy()[first : first + size] for name in ("query", "passage"))
        q = queries[query]
        at = np.searchsorted(asked.passages, own).clip(max=len(asked.passages) - 1)
        is_asked = asked.passages[at] == own
        s = np.concatenate([q @ asked.vectors.T, others[query][:, None]], axis=1)
        g = np.concatenate([q @ direction.T, np.zeros((len(q), 1), np.float32)], axis=1)
        s_x = np.einsum("ij,ij->i", q, gather(passages, own).astype(np.float32))
        g_x = np.where(is_asked, np.take_along_axis(g, at[:, None], axis=1)[:, 0], 0)
        s[is_asked, at[is_asked]] = s_x[is_asked]  # the same number, so that it does not beat itself
        ahead, slower = s - s_x[:, None], g_x[:, None] - g
        ahead[~is_asked, -1] = np.where(np.isclose(ahead[~is_asked, -1], 0, atol=1e-6), 0, ahead[~is_asked, -1])
        with np.errstate(divide="ignore", invalid="ignore"):
            crossing = ahead / slower
        low = np.where(slower > 0, crossing, 0).max(axis=1).clip(min=0)
        high = np.where(slower < 0, crossing, np.inf).min(axis=1)
        right = (high >= low) & ~((slower == 0) & (ahead > 0)).any(axis=1)
        yield low[right], high[right]


def _best_of_others(passages: NDArray[Any], without: Rows, queries: Matrix) -> Scores:
    """Each query's highest score among the passages that nothing asks for. *Shape:* (m, d), (l,), (q, d) -> (q,)."""
    best = np.full(len(queries), -np.inf, dtype=np.float32)
    for first, block in array_blocks(passages):
        low, high = np.searchsorted(without, [first, first + len(block)])
        others = np.delete(block, without[low:high] - first, axis=0)
        for start in range(0, len(queries), size := max(1, ENTRIES // max(1, len(others)))):
            part = slice(start, start + size)
            best[part] = np.maximum(best[part], (queries[part] @ others.T).max(axis=1, initial=-np.inf))
    return best
