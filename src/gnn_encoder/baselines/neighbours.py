"""What the labelled passages of similar logged queries get, added to the passages that M_de finds."""

from collections.abc import Callable, Sequence

import numpy as np

from gnn_encoder.baselines.bonus import Bonus, last_scores
from gnn_encoder.baselines.query_log import Given
from gnn_encoder.baselines.rankings import NOTHING
from gnn_encoder.core.rows import Rows, Scores

Score = Callable[[Rows, Rows], Scores]


def with_neighbours(
    run: tuple[Rows, Scores], given: Given, counts: Sequence[int], score: Score, *, corpus: int, unit: float
) -> Bonus:
    """Candidates: the passages of M_de's run and the labelled ones of the neighbours, with what they get.

    bonus_n(q, p) = sum over the n nearest logged queries q' that p is labelled with: cos(q, q')

    Args:
        run: *Shape:* (n, k) both.
        given: the labelled passages of each query's neighbours, of the largest of `counts`.
        counts: how many neighbours to sum over; each is one entry of the result's `bonuses`.
        score: M_de's score of passages that its run does not have. *Shape:* queries (e,), passages (e,) -> (e,).
        corpus: number of passages.
    """
    passages, base = run
    last = last_scores(passages, base, corpus)
    keys, of_given = np.unique(given.query * corpus + given.passage, return_inverse=True)
    queries, rows = np.divmod(keys, corpus)
    columns = _columns(passages, keys, corpus)
    missing = np.flatnonzero(columns < 0)
    columns[missing] = passages.shape[1] + _within(queries[missing])
    extra = int(columns.max(initial=-1)) + 1 - passages.shape[1]
    if extra > 0:
        passages = np.pad(passages, ((0, 0), (0, extra)), constant_values=-1)
        base = np.pad(base, ((0, 0), (0, extra)), constant_values=NOTHING)
        at = queries[missing], columns[missing]
        passages[at], base[at] = rows[missing], score(queries[missing], rows[missing])
    bonuses = {}
    for count in counts:
        bonus = np.zeros(passages.shape, dtype=np.float32)
        near = given.place < count
        np.add.at(bonus, (given.query[near], columns[of_given[near]]), given.similarity[near])
        bonuses[count] = bonus
    return Bonus(passages=passages, base=base, bonuses=bonuses, last=last, elsewhere=0.0, unit=unit)


def _columns(passages: Rows, keys: Rows, corpus: int) -> Rows:
    """The column in which each query's passage stands, -1 where it does not. `keys`: query * corpus + passage."""
    found = np.argwhere(passages >= 0)
    own = found[:, 0] * corpus + passages[tuple(found.T)]
    order = np.argsort(own, kind="stable")
    at = np.searchsorted(own[order], keys)
    known = np.zeros(len(keys), dtype=bool)
    known[at < len(own)] = own[order[at[at < len(own)]]] == keys[at < len(own)]
    columns = np.full(len(keys), -1, dtype=np.int64)
    columns[known] = found[order[at[known]], 1]
    return columns


def _within(queries: Rows) -> Rows:
    """Place of each row among the rows of its query; `queries` is sorted. *Shape:* (e,)."""
    return np.arange(len(queries)) - np.searchsorted(queries, queries)
