"""The closed forms that move labelled passages, each with the settings among which dev queries choose."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base.matrix import Matrix
from gnn_encoder.baselines.choice import Setting, plainest_first
from gnn_encoder.baselines.closed_form import best_form
from gnn_encoder.baselines.labelled import Asked, Others
from gnn_encoder.baselines.nudge import GAMMAS, best_gamma_m, nudge_m, nudge_n

METHODS = MEAN, NUDGE_M, NUDGE_N, FAMILY = "mean", "nudge_m", "nudge_n", "closed_form"
Shift = tuple[Setting, Callable[[], Matrix]]  # a setting, and what gives the labelled passages' vectors *Shape:* (l, d)


def shifts(
    method: str,
    asked: Asked,
    others: Others,
    pairs: pl.DataFrame,
    passages: NDArray[Any],
    *,
    weights: Iterable[float],
    unit_length: bool,
) -> list[Shift]:
    """What a method tries, h_p as it is first.

    NUDGE-N is about vectors of length 1: of others it moves none. NUDGE-M and the family find their setting themselves.

    Args:
        method: `MEAN`, `NUDGE_M`, `NUDGE_N` or `FAMILY`.
        others: with the dev queries that choose.
        pairs: what is relevant for them, columns query, passage.
        passages: h_p of all. *Shape:* (m, d).
        weights: of `MEAN`.
        unit_length: whether vectors have length 1.
    """
    if method == MEAN:
        plus = partial(asked.plus_mean, unit_length=unit_length)
        return [({"weight": weight}, partial(plus, weight)) for weight in plainest_first(weights)]
    if method == NUDGE_N:
        return [({"gamma": gamma}, partial(nudge_n, asked, gamma)) for gamma in (GAMMAS if unit_length else GAMMAS[:1])]
    if method == NUDGE_M:
        gamma = best_gamma_m(asked, passages, others.queries, pairs)
        found: Shift = ({"gamma": gamma}, partial(nudge_m, asked, gamma))
        return [({"gamma": 0.0}, lambda: asked.vectors), *([found] if gamma else [])]
    best = best_form(asked, others, pairs, unit_length=unit_length)
    moved: Shift = (best.form.setting, partial(best.moved, asked))
    return [({"weight": 0.0}, lambda: asked.vectors), *([moved] if best.form.weight else [])]
