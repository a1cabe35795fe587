"""The query bank: what many queries, labelled or not, make of a passage is taken off what a query makes of it.

In high dimensions a few passages, the hubs, are near a great part of all queries, and rank above the answers of many.
The inverted softmax (Smith et al., ICLR 2017; Bogolin et al., CVPR 2022, as querybank normalisation) lowers them by
what the bank, n queries q', makes of them at the encoder's own temperature tau:

    s'(q, p) = s(q, p) - w b_p,    b_p = tau log( 1/n sum_q' exp(s(q', p) / tau) )

So that an index needs one vector a passage, and search nothing more, the term goes along a direction u on which all
queries have about the same component, 1, by ridge regression; dev chooses w:

    h'_p = h_p - w (b_p - mean b) u,    u = (C + lambda I)^-1 mean q',  scaled to a mean of q' . u of 1
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.matrix import Matrix, Rows, Scores
from gnn_encoder.controls.choose import Choice, DevQueries, Setting, best_on_dev
from gnn_encoder.controls.closed_form import whitener

BY_BANK = "query_bank"  # `by` of a reordered system
BANK = 16_384  # most queries of a bank, drawn at random
WEIGHTS = (0.0, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4)
RIDGE = 0.3  # lambda in mean eigenvalues of C, the bank's second moment
SCORES = 2**24  # of a block of passages and some queries that are held at a time


@dataclass(frozen=True, kw_only=True)
class QueryBank:
    """What the bank makes of each passage, less its mean, and where it goes. *Shape:* b (m,), u (d,)."""

    b: Scores
    u: Matrix

    @classmethod
    def of(cls, passages: Callable[[], Iterator[tuple[int, Matrix]]], m: int, bank: Matrix, scale: float) -> Self:
        """Read the passages once, in blocks from their first rows on; `scale` is 1 / tau. *Shape:* bank (n, d)."""
        b = np.empty(m, dtype=np.float32)
        with tqdm(total=m, desc="query bank", unit="passage", unit_scale=True, delay=2) as bar:
            for first, block in passages():
                b[first : first + len(block)] = _soft_maximum(block, bank, scale)
                bar.update(len(block))
        mean = bank.mean(axis=0)
        u = whitener(bank.T @ bank / np.float32(len(bank)), RIDGE) @ mean
        return cls(b=b - b.mean(dtype=np.float64).astype(np.float32), u=u / max(float(mean @ u), 1e-12))

    def lower(self, first: int, block: Matrix, weight: float) -> Matrix:
        """h'_p of a matrix's rows from `first` on. *Shape:* (r, d) -> (r, d)."""
        if weight == 0:
            return block
        return block - np.float32(weight) * self.b[first : first + len(block), None] * self.u


def drawn(n: int, seed: int) -> Rows:
    """Which of n queries are the bank: all, or BANK at random. *Shape:* (at most BANK,), ascending."""
    return np.sort(np.random.default_rng(seed).permutation(n)[:BANK])


def best_weight(ranked: Callable[[float], Rows], dev: DevQueries) -> Choice:
    """The weight whose ranking of the dev queries is best, of equally good ones the least; `ranked`: by a weight."""
    return best_on_dev([Setting(weight=weight) for weight in WEIGHTS], map(ranked, WEIGHTS), dev)


def _soft_maximum(block: Matrix, bank: Matrix, scale: float) -> Scores:
    """b_p of some passages. *Shape:* (r, d), (n, d) -> (r,)."""
    total, size = np.full(len(block), -np.inf), max(1, SCORES // len(block))
    for part in (bank[start : start + size] for start in range(0, len(bank), size)):
        scores = np.float32(scale) * (block @ part.T)
        most = scores.max(axis=1, keepdims=True)
        total = np.logaddexp(total, most[:, 0] + np.log(np.exp(scores - most).sum(axis=1, dtype=np.float64)))
    return np.asarray((total - np.log(len(bank))) / scale, dtype=np.float32)
