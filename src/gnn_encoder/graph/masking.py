"""Masked Graph Training: which queries train, and which are in the graph (section 3.4, Algorithm 1, lines 3-6)."""

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.rows import Rows


def folds(rows: Rows, beta: float, seed: int, epoch: int) -> list[Rows]:
    """Split the training queries of one epoch at random into about 1 / beta folds.

    Each fold in turn is Q_t, the queries that train and are masked in the graph, while all other queries are Q_g.

    Args:
        rows: the queries that can train. *Shape:* (n,).
        beta: share of the queries that is masked at a time.
        seed: decides the split, together with `epoch`.
        epoch: number of the pass over the queries.

    Returns:
        At least two folds, whose sizes differ by one at most; every query is in exactly one.

    Raises:
        UserError: beta is not in (0, 0.5], or there are fewer queries than folds.
    """
    count = fold_count(beta)
    if len(rows) < count:
        raise UserError(
            f"mgt.beta is {beta}: {count} folds need at least {count} training queries, there are {len(rows)}; "
            "raise mgt.beta or add queries"
        )
    return list(np.array_split(np.random.default_rng([seed, epoch]).permutation(rows), count))


def fold_count(beta: float) -> int:
    """The number of folds that each hold a share `beta` of the queries: about 1 / beta.

    Raises:
        UserError: beta is not in (0, 0.5].
    """
    if not 0 < beta <= 0.5:
        raise UserError(
            f"mgt.beta is {beta}: must be above 0 and at most 0.5; it is the share of the queries that is masked at a "
            "time, and as many must be left"
        )
    return round(1 / beta)


def propagation_mask(n: int, masked: Rows) -> NDArray[np.bool_]:
    """True for the queries that are in the graph: all but the masked ones. *Shape:* (n,)."""
    mask = np.ones(n, dtype=bool)
    mask[masked] = False
    return mask


def check_no_leak(masked: Rows, reachable_queries: Rows) -> None:
    """Make sure that no query trains against passage embeddings that the query itself has informed.

    Args:
        masked: queries that must not be in the graph. *Shape:* (b,).
        reachable_queries: queries that the batch's passages have an edge to. *Shape:* (E,).

    Raises:
        RuntimeError: a masked query is reachable.
    """
    leaked = np.intersect1d(masked, reachable_queries)
    if len(leaked):
        raise RuntimeError(f"{len(leaked)} masked queries can be reached in the graph, such as row {leaked[0]}")
