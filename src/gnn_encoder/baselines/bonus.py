"""M_de's score plus a weight times a bonus that the training labels give a passage.

Weights are in standard deviations of M_de's scores of one query's passages (`unit`), so that one grid fits scores of
any scale: cosines, and the inner products of models that are trained without.

The candidates are those of M_de's run. So a ranking is that of the whole corpus as far down as no other passage can
reach: a passage that the run left out has at most the score of its last one, and at most the largest bonus. `certain`
counts the queries for which that holds down to the depth that counts.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.baselines.choice import Setting
from gnn_encoder.baselines.rankings import NOTHING, Ranking, best
from gnn_encoder.core.rows import Rows, Scores


@dataclass(frozen=True, kw_only=True)
class Bonus:
    """Candidates with M_de's scores and with the bonus that a setting gives them.

    *Shape:* passages, base and bonus (n, c); last (n,): what a passage that is no candidate scores at most, `NOTHING`
    where all passages are candidates.
    """

    passages: Rows
    base: Scores
    bonus: Callable[[Setting], Scores]
    last: Scores
    elsewhere: float  # the largest bonus of a passage that is no candidate
    unit: float

    def weight(self, setting: Setting) -> float:
        """What a bonus of 1 adds to a score."""
        return float(setting["weight"]) * self.unit

    def scores(self, setting: Setting) -> Scores:
        """s(q, p) + weight * unit * bonus(q, p). *Shape:* (n, c)."""
        scores = self.base + np.float32(self.weight(setting)) * self.bonus(setting)
        return np.where(self.passages < 0, NOTHING, scores).astype(np.float32)

    def facts(self, setting: Setting, depth: int) -> Setting:
        """What the setting means in scores, and how exact the first `depth` ranks are."""
        return {"unit": self.unit, "added": self.weight(setting), "certain": self.certain(setting, depth)}

    def certain(self, setting: Setting, depth: int) -> float:
        """Share of the queries whose `depth` best passages are those of the whole corpus for certain."""
        _, scores = best(self.passages, self.scores(setting), depth)
        reach = self.last + max(0.0, self.elsewhere * self.weight(setting))
        return float((np.isneginf(self.last) | (scores[:, -1] >= reach)).mean())


def unit(passages: Rows, scores: Scores) -> float:
    """Standard deviation of the scores of one query's passages, as the mean over queries.

    *Shape:* (n, k) both, passages -1 where there is none.
    """
    found = passages >= 0
    values = np.where(found, scores, np.nan).astype(np.float64)[found.any(axis=1)]
    return float(np.nanstd(values, axis=1).mean()) if len(values) else 0.0


def last_scores(passages: Rows, scores: Scores, corpus: int) -> Scores:
    """The score of each ranking's last passage, `NOTHING` where it holds the whole corpus. *Shape:* (n, k) -> (n,)."""
    found = passages >= 0
    last = np.where(found, scores, np.inf).min(axis=1, initial=np.inf)
    return np.where(found.sum(axis=1) == corpus, NOTHING, last).astype(np.float32)


def prior(run: Ranking, labelled: NDArray[np.bool_], unit: float) -> Bonus:
    """A run in which every labelled passage has the bonus 1: the system `label_prior`.

    s'(q, p) = s(q, p) + c for passages that are labelled for a training query; c may be negative. It tells what is
    gained by nothing but knowing which passages have been answers before. It is an inner product with one vector per
    passage: h_p with one more column, c or 0, and the query's vector with one more column, 1.

    *Shape:* run (n, k) both, labelled (m,).
    """
    passages, scores = run
    bonus = (labelled[passages] & (passages >= 0)).astype(np.float32)
    last = last_scores(passages, scores, len(labelled))
    return Bonus(passages=passages, base=scores, bonus=lambda setting: bonus, last=last, elsewhere=1.0, unit=unit)
