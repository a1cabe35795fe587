"""What labels give without training: closed forms move labelled passages towards their queries.

The family is h'_p = h_p + w n_p^-a (C + lambda I)^-1 c_p, w >= 0. c_p is the sum of p's labelled queries, n_p their
number, and C the second moment of all labelled queries (1/n of their Gram matrix). It holds

- ridge regression (a = 0): each passage is a linear classifier of queries, which starts from h_p,
- the mean of a passage's labelled queries (a = 1, no whitening), their sum (a = 0), and what lies between,

each brought back to length 1, or not. Which is best differs from log to log, so that all are tried on dev. Passages
without a label, and with w = 0 all passages, keep their vectors to the bit. A weight below 0 would gain where no dev
query asks for a labelled passage, by ranking these lower, and no training query would find its own any more.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby, product
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.judgements import Identical, contains
from gnn_encoder.base.matrix import Matrix, Rows, Scores, array_blocks, gather_rows, of_length_1
from gnn_encoder.controls.choose import Setting
from gnn_encoder.search.exact import Ranking, block_top_k, top

METHODS = NUDGE_N, FAMILY = "nudge_n", "closed_form"
# Of each the value that changes least comes first: of equally good ones it is taken.
GAMMAS = tuple(0.02 * step for step in range(25))  # the paper's grid
RIDGES = (None, 0.3, 3.0, 30.0)  # lambda in mean eigenvalues of C; None: without whitening
POWERS = (1.0, 0.75, 0.5, 0.0)  # a
STEPS = (0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.5, 4.0)  # mean length of what is added, in that of h_p
DEPTH = 10  # of the measure, RR@10
ENTRIES = 2**21  # scores of dev queries that are held at a time
NOBODY = Identical()  # no query is a passage
# Scores by which each member is tried. Where many passages have a label fewer dev queries try all, and all these best.
TRIED, FINAL = 2**24, 16
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class LabelledPassages:
    """The labelled passages, at least one, and what asks for them.

    *Shape:* passages (l,), their rows, ascending; vectors (l, d), h_p; sums (l, d), c_p; counts (l,), n_p; moment C.
    """

    passages: Rows
    vectors: Matrix
    sums: Matrix
    counts: NDArray[np.int64]
    moment: Matrix

    @classmethod
    def of(cls, passages: NDArray[Any], pairs: pl.DataFrame, queries: Matrix) -> Self:
        """Sum up labelled queries. *Shape:* passages (m, d), queries (n, d); pairs: columns query, passage."""
        pairs = pairs.sort("passage", "query")
        rows, first, counts = np.unique(pairs["passage"].to_numpy(), return_index=True, return_counts=True)
        sums = np.add.reduceat(queries[pairs["query"].to_numpy()], first, axis=0)
        asking = queries[pairs["query"].unique().to_numpy()]
        moment = asking.T @ asking / np.float32(len(asking))
        vectors = gather_rows(passages, rows).astype(np.float32)
        return cls(passages=rows, vectors=vectors, sums=sums, counts=counts, moment=moment)

    def among(self, query: Rows, passage: Rows) -> tuple[Rows, Rows]:
        """Of pairs those of a labelled passage: the query, and the passage's place here. *Shape:* (p,) each."""
        kept = contains(self.passages, passage)
        return query[kept], np.searchsorted(self.passages, passage[kept])

    def nudged(self, gamma: float) -> Matrix:
        """NUDGE-N (Zeighami et al., ICLR 2025): h_p turned towards c_p, by a squared distance of gamma at most.

        With z the direction of the part of c_p that is at right angles to h_p, and where c_p is not nearer than that:

            h'_p = (1 - gamma / 2) h_p + sqrt(gamma - gamma^2 / 4) z

        Vectors have length 1. A passage from which c_p points away (h_p . c_p < 0) stays, as in the authors' code.
        *Shape:* (l, d).
        """
        if gamma == 0:
            return self.vectors
        h_p, direction = self.vectors, of_length_1(self.sums)
        cosine = np.einsum("ij,ij->i", h_p, direction)[:, None]
        z = of_length_1(direction - cosine * h_p)
        turned = np.float32(1 - gamma / 2) * h_p + np.float32(np.sqrt(gamma - gamma**2 / 4)) * z
        moved: Matrix = np.where(cosine >= 1 - gamma / 2, direction, turned)
        return np.where(cosine < 0, h_p, moved)

    def place(self, first: int, block: Matrix, moved: Matrix) -> Matrix:
        """The rows of a matrix from `first` on, with the labelled ones `moved`. *Shape:* block (b, d), moved (l, d)."""
        low, high = np.searchsorted(self.passages, [first, first + len(block)])
        block[self.passages[low:high] - first] = moved[low:high]
        return block


class Unmoved:
    """Rankings of all passages, of which only the labelled ones move: the others are searched once.

    *Shape:* passages (m, d), queries (n, d); k passages a query, none of which the query is itself (`identical`).
    """

    def __init__(
        self, passages: NDArray[Any], labelled: LabelledPassages, queries: Matrix, k: int, identical: Identical = NOBODY
    ) -> None:
        self.queries, self._k, self.identical, self._wide = queries, k, identical, k + identical.most
        self._rows = labelled.passages
        self._top: Ranking = np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
        with tqdm(total=len(passages), desc="unlabelled", unit="passage", unit_scale=True) as bar:
            for first, block in array_blocks(passages):
                low, high = np.searchsorted(self._rows, [first, first + len(block)])
                others = np.delete(np.arange(len(block)), self._rows[low:high] - first)
                if len(others):
                    self._top = self._joined(*block_top_k(block[others], queries, self._wide), first + others)
                bar.update(len(block))

    def rank(self, moved: Matrix | None = None) -> Ranking:
        """Each query's best passages with these vectors of the labelled ones, or without these.

        *Shape:* (l, d) -> (n, at most k) both.
        """
        found = self._top
        if moved is not None:
            found = self._joined(*block_top_k(moved, self.queries, self._wide), self._rows)
        return self.identical.without_own(*found, self._k)

    def _joined(self, places: Rows, scores: Scores, rows: Rows) -> Ranking:
        passages = np.concatenate([self._top[0], rows[places]], axis=1)
        return top(passages, np.concatenate([self._top[1], scores], axis=1), self._wide)


@dataclass(frozen=True, kw_only=True, eq=False)
class ClosedForm:
    """A member of the family; `weight` is w, and `whitener` the matrix of its lambda."""

    whitener: Matrix
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
        return np.asarray(np.float32(self.weight) * counts.astype(np.float32) ** np.float32(-self.power))

    def moved(self, labelled: LabelledPassages) -> Matrix:
        """h'_p of the labelled passages. *Shape:* (l, d)."""
        if self.weight == 0:
            return labelled.vectors
        added = self.scale(labelled.counts)[:, None] * (labelled.sums @ self.whitener)
        return of_length_1(labelled.vectors + added) if self.unit_length else labelled.vectors + added


def whitener(moment: Matrix, ridge: float | None) -> Matrix:
    """(C + lambda I)^-1 times 1 + lambda, both in mean eigenvalues of C; I without whitening. *Shape:* (d, d)."""
    d = len(moment)
    if ridge is None:
        return np.eye(d, dtype=np.float32)
    unit = max(float(np.trace(moment)) / d, 1e-12)
    inverse = np.linalg.inv(moment.astype(np.float64) / unit + ridge * np.eye(d))
    return np.asarray(inverse * (1 + ridge), dtype=np.float32)


def best_form(labelled: LabelledPassages, unmoved: Unmoved, pairs: pl.DataFrame, *, unit_length: bool) -> ClosedForm:
    """Try the family on dev; of equally good members the first is taken, h_p as it is. Arguments: `settings_of`."""
    forms, judged = list(members(labelled, unit_length=unit_length)), pairs["query"].unique().sort()
    if (step := -(-len(judged) * len(labelled.passages) // TRIED)) > 1:
        some = judged.gather_every(step)
        log.info("closed forms: %d dev queries try all, all %d the best %d", len(some), len(judged), FINAL)
        values = dev_values(labelled, unmoved, pairs.filter(pl.col("query").is_in(some.implode())), forms)
        forms = [forms[number] for number in np.sort(np.argsort(-values, kind="stable")[:FINAL])]
    return forms[int(dev_values(labelled, unmoved, pairs, forms).argmax())]


def members(labelled: LabelledPassages, *, unit_length: bool) -> Iterator[ClosedForm]:
    """What is tried of the family, h_p as it is first, those of a whitening together."""
    yield ClosedForm(whitener=whitener(labelled.moment, None))
    length = float(np.linalg.norm(labelled.vectors, axis=1).mean())
    for ridge in RIDGES:
        by = whitener(labelled.moment, ridge)
        norms = np.linalg.norm(labelled.sums @ by, axis=1)
        for power, unit, step in product(POWERS, (True, False) if unit_length else (False,), STEPS):
            added = float((norms * labelled.counts**-power).mean())
            if added > 0:  # w is set by the mean length of what is added
                weight = step * length / added
                yield ClosedForm(whitener=by, weight=weight, power=power, ridge=ridge, unit_length=unit)


def dev_values(
    labelled: LabelledPassages, unmoved: Unmoved, pairs: pl.DataFrame, forms: list[ClosedForm]
) -> NDArray[np.float64]:
    """The mean RR@10 with each of some members, those of a whitening together. Arguments: `settings_of`.

    It is that of the dev queries with a relevant passage. What scores they give the passages without a label is looked
    up once.
    """
    pairs = pairs.sort("query")
    rows, query = np.unique(pairs["query"].to_numpy(), return_inverse=True)
    passage, (others, top_scores) = pairs["passage"].to_numpy(), (matrix[rows] for matrix in unmoved.rank())
    m = 1 + max(passage.max(initial=0), others.max(initial=0))
    relevant = contains(np.sort(query * m + passage), np.arange(len(rows))[:, None] * m + others)
    # (q,): the score of the first relevant passage without a label, -inf where there is none
    unlabelled = np.where(relevant, top_scores, -np.inf).max(axis=1, initial=-np.inf).astype(np.float32)
    queries, own = unmoved.queries[rows], unmoved.identical.of_queries(rows).own
    asked, same = labelled.among(query, passage), labelled.among(*own.select("query", "passage").to_numpy().T)

    def values(whitened: Matrix, forms: list[ClosedForm]) -> NDArray[np.float64]:
        total, scales = np.zeros(len(forms)), [form.scale(labelled.counts) for form in forms]
        lengths = [  # by which the moved vectors are divided
            np.linalg.norm(labelled.vectors + scale[:, None] * whitened, axis=1).clip(min=1e-12)
            if form.unit_length
            else np.float32(1)
            for form, scale in zip(forms, scales, strict=True)
        ]
        size = max(1, ENTRIES // len(whitened))
        for first in range(0, len(queries), size):
            part = slice(first, first + size)
            found, itself = (_of_queries(pairs, first, size) for pairs in (asked, same))
            base, added = queries[part] @ labelled.vectors.T, queries[part] @ whitened.T
            for number, (scale, length) in enumerate(zip(scales, lengths, strict=True)):
                scores = (base + added * scale) / length
                scores[itself] = -np.inf  # a query does not rank itself
                best = unlabelled[part].copy()
                np.maximum.at(best, found[0], scores[found])
                before = (scores > best[:, None]).sum(axis=1) + (top_scores[part] > best[:, None]).sum(axis=1)
                total[number] += np.where(before < DEPTH, 1 / (1 + before), 0).sum()
        return total / max(1, len(queries))

    together = (list(group) for _, group in groupby(forms, key=lambda form: form.ridge))
    return np.concatenate([values(labelled.sums @ some[0].whitener, some) for some in together])


def _of_queries(pairs: tuple[Rows, Rows], first: int, size: int) -> tuple[Rows, Rows]:
    """The pairs of `size` queries from `first` on, which is 0 then; queries ascend. *Shape:* (p,) each."""
    low, high = np.searchsorted(pairs[0], [first, first + size])
    return pairs[0][low:high] - first, pairs[1][low:high]


def settings_of(
    method: str, labelled: LabelledPassages, unmoved: Unmoved, pairs: pl.DataFrame, *, unit_length: bool
) -> tuple[list[Setting], Callable[[Setting], Matrix]]:
    """What a method tries, h_p as it is first, and what gives the labelled passages' vectors with a setting.

    NUDGE-N is about vectors of length 1 (`unit_length`): of others it moves none. The family finds its best member
    itself. `pairs`: what is relevant for the dev queries of `unmoved`, columns query, passage.
    """
    if method == NUDGE_N:
        gammas = [Setting(gamma=gamma) for gamma in (GAMMAS if unit_length else GAMMAS[:1])]
        return gammas, lambda one: labelled.nudged(float(one["gamma"]))
    best = best_form(labelled, unmoved, pairs, unit_length=unit_length)
    members = [Setting(weight=0.0), *([best.setting] if best.weight else [])]
    return members, lambda one: best.moved(labelled) if one["weight"] else labelled.vectors
