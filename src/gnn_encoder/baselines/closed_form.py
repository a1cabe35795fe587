"""What labels give without training: h'_p = h_p + w n_p^-a (C + lambda I)^-1 sum of p's labelled queries.

C is the second moment of the labelled queries (1/n of their Gram matrix) and n_p the number of p's. The family holds

- ridge regression (a = 0): each passage is a linear classifier of queries, which starts from h_p,
- the mean of a passage's labelled queries (a = 1, no whitening), their sum (a = 0), and what lies between,

each brought back to length 1, or not. Which is best differs from log to log, so that all are tried on dev.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base.judgements import contains
from gnn_encoder.base.matrix import Matrix, Rows, Scores, of_length_1
from gnn_encoder.baselines.choice import Setting
from gnn_encoder.baselines.labelled import Asked, Others

RIDGES = (None, 0.3, 3.0, 30.0)  # lambda in mean eigenvalues of C; None: without whitening
POWERS = (1.0, 0.75, 0.5, 0.0)  # a
STEPS = (0.1, -0.1, 0.2, -0.2, 0.4, -0.4, 0.7, 1.0, 1.5, 2.5, 4.0)  # mean length of what is added, in that of h_p
DEPTH = 10  # of the measure, RR@10
ENTRIES = 2**21  # scores of dev queries that are held at a time
TRIED = 2**24  # scores by which each member is tried: fewer dev queries where many passages have a label


@dataclass(frozen=True, kw_only=True)
class Form:
    """A member of the family; `weight` is w."""

    weight: float = 0.0
    power: float = 1.0
    ridge: float | None = None
    unit_length: bool = False

    @property
    def setting(self) -> Setting:
        """The member by name: w, a, lambda, and whether vectors have length 1 again."""
        whitened = "not whitened" if self.ridge is None else self.ridge
        length = "1" if self.unit_length else "any"
        return {"weight": self.weight, "power": self.power, "lambda": whitened, "length": length}

    def scale(self, counts: NDArray[np.int64]) -> Scores:
        """W n_p^-a. *Shape:* (l,) -> (l,)."""
        found: Scores = np.float32(self.weight) * counts.astype(np.float32) ** np.float32(-self.power)
        return found

    def moved(self, asked: Asked, whitened: Matrix) -> Matrix:
        """New vectors of the labelled passages. `whitened`: their sums times the `whitener`. *Shape:* (l, d)."""
        if self.weight == 0:
            return asked.vectors
        moved: Matrix = asked.vectors + self.scale(asked.counts)[:, None] * whitened
        return of_length_1(moved) if self.unit_length else moved


def whitener(moment: Matrix, ridge: float | None) -> Matrix:
    """(C + lambda I)^-1 times 1 + lambda, both in mean eigenvalues of C; I without whitening. *Shape:* (d, d)."""
    d = len(moment)
    if ridge is None:
        return np.eye(d, dtype=np.float32)
    unit = max(float(np.trace(moment)) / d, 1e-12)
    inverse = np.linalg.inv(moment.astype(np.float64) / unit + ridge * np.eye(d))
    found: Matrix = (inverse * (1 + ridge)).astype(np.float32)
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """The best member, the matrix of its whitening, and its RR@10 of the dev queries by which it was tried."""

    form: Form
    whitener: Matrix
    value: float

    def moved(self, asked: Asked) -> Matrix:
        """New vectors of the labelled passages. *Shape:* (l, d)."""
        return self.form.moved(asked, asked.sums @ self.whitener)


def best_form(asked: Asked, others: Others, pairs: pl.DataFrame, *, unit_length: bool) -> Found:
    """Try the family on dev. Of equally good members the first is taken; h_p as it is comes first.

    Args:
        others: what dev queries find among passages without a label.
        pairs: what is relevant for the dev queries, columns query, passage.
        unit_length: whether vectors have length 1, so that members which have it too are tried.
    """
    known = Known.of(asked, others, pairs)
    length = float(np.linalg.norm(asked.vectors, axis=1).mean())
    best: Found | None = None
    for ridge in RIDGES:
        by = whitener(asked.moment, ridge)
        whitened = asked.sums @ by
        forms = list(_members(asked, whitened, ridge, length, unit_length=unit_length))
        if best is None:
            forms.insert(0, Form())
        values = known.values(asked, whitened, forms)
        at = int(np.argmax(values))
        if best is None or values[at] > best.value:
            best = Found(form=forms[at], whitener=by, value=float(values[at]))
    assert best is not None
    return best


def _members(
    asked: Asked, whitened: Matrix, ridge: float | None, length: float, *, unit_length: bool
) -> Iterator[Form]:
    """The members of one whitening: w by the mean length of what it adds."""
    norms = np.linalg.norm(whitened, axis=1)
    lengths = (True, False) if unit_length else (False,)
    for power, unit, step in product(POWERS, lengths, STEPS):
        added = float((norms * asked.counts**-power).mean()) if len(norms) else 0.0
        if added > 0:
            yield Form(weight=step * length / added, power=power, ridge=ridge, unit_length=unit)


@dataclass(frozen=True, kw_only=True)
class Known:
    """What dev queries score where no member of the family changes it.

    *Shape:* queries (q, d); top (q, k), the best scores of passages without a label; own (q,), that of the first
    relevant one among these, -inf where there is none; query, place (pairs,): the relevant passages that have a
    label, as places among these, sorted by query.
    """

    queries: Matrix
    top: Scores
    own: Scores
    query: Rows
    place: Rows

    @classmethod
    def of(cls, asked: Asked, others: Others, pairs: pl.DataFrame) -> Self:
        """Look up the relevant passages of dev queries, or of some where the labels are many."""
        judged = pairs["query"].unique()
        step = -(-len(judged) * len(asked.passages) // TRIED)  # each so many-th query
        pairs = pairs.filter(pl.col("query").is_in(judged.sort().gather_every(max(1, step)).implode()))
        rows, query = np.unique(pairs["query"].to_numpy(), return_inverse=True)
        passage, (top, scores) = pairs["passage"].to_numpy(), (matrix[rows] for matrix in others.top)
        m = 1 + max(passage.max(initial=0), top.max(initial=0))
        relevant = contains(np.sort(query * m + passage), np.arange(len(rows))[:, None] * m + top)
        own = np.where(relevant, scores, -np.inf).max(axis=1, initial=-np.inf)
        place = np.searchsorted(asked.passages, passage)
        labelled = np.append(asked.passages, -1)[place] == passage
        order = np.argsort(query[labelled], kind="stable")
        query, place = query[labelled][order], place[labelled][order]
        return cls(queries=others.queries[rows], top=scores, own=own.astype(np.float32), query=query, place=place)

    def values(self, asked: Asked, whitened: Matrix, forms: list[Form]) -> NDArray[np.float64]:
        """The mean RR@10 with each of some members that have the same whitening. *Shape:* (forms,)."""
        total = np.zeros(len(forms))
        parts = [(form.scale(asked.counts), _lengths(asked, whitened, form)) for form in forms]
        size = max(1, ENTRIES // max(1, len(whitened)))
        for first in range(0, len(self.queries), size):
            part = slice(first, first + size)
            low, high = np.searchsorted(self.query, [first, first + size])
            pairs = self.query[low:high] - first, self.place[low:high]
            q = self.queries[part]
            base, added = q @ asked.vectors.T, q @ whitened.T
            for number, (scale, length) in enumerate(parts):
                scores = (base + added * scale) / length
                best = self.own[part].copy()
                np.maximum.at(best, pairs[0], scores[pairs])
                before = (scores > best[:, None]).sum(axis=1) + (self.top[part] > best[:, None]).sum(axis=1)
                total[number] += np.where(before < DEPTH, 1 / (1 + before), 0).sum()
        return total / max(1, len(self.queries))


def _lengths(asked: Asked, whitened: Matrix, form: Form) -> Scores:
    """The lengths by which the moved vectors are divided. *Shape:* (l,)."""
    if not form.unit_length:
        return np.ones(len(whitened), dtype=np.float32)
    moved = Form(weight=form.weight, power=form.power).moved(asked, whitened)
    length: Scores = np.linalg.norm(moved, axis=1).clip(min=1e-12)
    return length
