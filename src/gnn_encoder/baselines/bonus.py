"""M_de's score plus a weight times a bonus that the training labels give a passage.

Weights are in standard deviations of M_de's scores of one query's passages (`unit`), so that one grid fits scores of
any scale: cosines, and the inner products of models that are trained without.

The candidates are those of M_de's run, to whatever depth it has.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.base.matrix import Rows, Scores
from gnn_encoder.baselines.choice import Setting
from gnn_encoder.baselines.rankings import NOTHING, Ranking


@dataclass(frozen=True, kw_only=True)
class Bonus:
    """Candidates with M_de's scores and with the bonus that a setting gives them. *Shape:* (n, c) each."""

    passages: Rows
    base: Scores
    bonus: Callable[[Setting], Scores]
    unit: float

    def scores(self, setting: Setting) -> Scores:
        """s(q, p) + weight * unit * bonus(q, p). *Shape:* (n, c)."""
        scores = self.base + np.float32(float(setting["weight"]) * self.unit) * self.bonus(setting)
        return np.where(self.passages < 0, NOTHING, scores).astype(np.float32)


def unit(passages: Rows, scores: Scores) -> float:
    """Standard deviation of the scores of one query's passages, as the mean over queries.

    *Shape:* (n, k) both, passages -1 where there is none.
    """
    found = passages >= 0
    values = np.where(found, scores, np.nan).astype(np.float64)[found.any(axis=1)]
    return float(np.nanstd(values, axis=1).mean()) if len(values) else 0.0


def prior(run: Ranking, labelled: NDArray[np.bool_], unit: float) -> Bonus:
    """A run in which every labelled passage has the bonus 1: the system `label_prior`.

    s'(q, p) = s(q, p) + c for passages that are labelled for a training query; c may be negative. It tells what is
    gained by nothing but knowing which passages have been answers before. It is an inner product with one vector per
    passage: h_p with one more column, c or 0, and the query's vector with one more column, 1.

    *Shape:* run (n, k) both, labelled (m,).
    """
    passages, scores = run
    bonus = (labelled[passages] & (passages >= 0)).astype(np.float32)
    return Bonus(passages=passages, base=scores, bonus=lambda setting: bonus, unit=unit)
