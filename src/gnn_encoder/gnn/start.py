"""Where Masked Graph Training starts: near the identity or, in graphs with labelled edges, where these weigh more.

Where a log asks for the same passages again and again, the mean of a passage's labelled queries is worth much before
anything is trained. Some hundred steps from the identity do not get there, so a few starts are tried on the dev sample.
"""

import logging
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from itertools import product

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnn_encoder.base.judgements import Identical
from gnn_encoder.base.matrix import Mask, Matrix
from gnn_encoder.controls.choose import shown
from gnn_encoder.controls.closed_form import DEPTH, NOBODY, ClosedForm, LabelledPassages, Unmoved, best_form
from gnn_encoder.gnn.neighbourhood import Neighbourhood
from gnn_encoder.gnn.network import GATE_BIAS, QueryPassageGNN
from gnn_encoder.train.dev import DevSample

log = logging.getLogger(__name__)
ERRORS = 2.0  # standard errors by which a start must beat the identity: a dev sample is small, and the starts are many


@dataclass(frozen=True)
class Start:
    """A start: the gate's bias b_qp (Eq. 9), the logit of labelled edges b_l, and the share of h~_q in h'_q (Eq. 7).

    With `closed`, the sums of labelled queries start as this closed form; without, as nothing.
    """

    gate: float = GATE_BIAS
    label: float = 0.0
    mix: float = 0.5
    closed: ClosedForm | None = None

    def __str__(self) -> str:
        told = f"gate {self.gate}, labelled edges {self.label}, mix {self.mix}"
        return told if self.closed is None else f"the closed form ({shown(self.closed.setting)}), {told}"

    @torch.no_grad()
    def apply(self, gnn: QueryPassageGNN) -> None:
        """Set the weights of a new network with `labels`."""
        if gnn.config.gate == "learned":
            gnn.gate.bias.fill_(self.gate)
        assert gnn.passage_attention.b_l is not None
        gnn.passage_attention.b_l.fill_(self.label)
        one = torch.eye(gnn.config.dimension)
        if gnn.config.layers == 2:
            gnn.combine.weight.copy_(torch.cat([self.mix * one, (1 - self.mix) * one], dim=1))
        form = self.closed or ClosedForm(whitener=one.numpy(), power=0.5, unit_length=True)
        gnn.W_l.copy_(form.weight * one)
        gnn.A.copy_(torch.from_numpy(form.whitener))
        gnn.exponent.fill_(form.power)
        gnn.config = gnn.config.model_copy(update={"unit_length": form.unit_length})


IDENTITY = Start()
# Tried with each other; the first of each is the identity's.
GATES, LABELS, MIXES = (GATE_BIAS, 0.0, 2.0), (0.0, 8.0), (0.5, 0.0)
SHUT = -4.0  # a gate that lets little through, so that a closed form starts nearly as it is, and that can still learn


def closed_form(
    near: Neighbourhood, queries: Matrix, dev_queries: Matrix, dev: DevSample, *, cosine: bool
) -> ClosedForm:
    """The closed form that is best on dev.

    *Shape:* E_Q of the nodes (n, d) and of the dev sample (q, d).
    """
    labelled = LabelledPassages.of(near.cached, near.labels.pairs, queries)

    def pairs(mask: Mask) -> pl.DataFrame:
        query, column = np.nonzero(mask)
        return pl.DataFrame({"query": query, "passage": dev.pool[column]})

    identical = NOBODY if dev.own is None else Identical(own=pairs(dev.own))
    unmoved = Unmoved(near.cached, labelled, dev_queries, DEPTH, identical)
    return best_form(labelled, unmoved, pairs(dev.relevant), unit_length=cosine)


def starts_of(gnn: QueryPassageGNN, closed: ClosedForm | None = None) -> list[Start]:
    """The starts of a network that differ in weights that it has, the identity first."""
    config = gnn.config
    gates = GATES if config.gate == "learned" else GATES[:1]
    starts = product(gates, LABELS, MIXES if config.layers == 2 else MIXES[:1])
    shut = (GATE_BIAS, SHUT) if config.gate == "learned" else (GATE_BIAS,)
    return [*(Start(*values) for values in starts), *(Start(gate, closed=closed) for gate in shut if closed)]


@dataclass(frozen=True, kw_only=True)
class ChosenStart:
    """The best of the starts, which chance may have made the best, its dev score, and the weights of a new network."""

    best: Start
    value: float
    weights: dict[str, Tensor]

    def restore(self, gnn: QueryPassageGNN, reached: float) -> bool:
        """Give the network the best start if training has `reached` less on dev; say whether it has."""
        if lost := self.value > reached:
            gnn.load_state_dict(self.weights)
            self.best.apply(gnn)
            log.info("GNN alone: training ends below %s, dev RR@10 %.4f, which is kept", self.best, self.value)
        return lost


def choose_start(
    gnn: QueryPassageGNN, reciprocal_ranks: Callable[[], NDArray[np.float64]], closed: ClosedForm | None = None
) -> ChosenStart:
    """Give a new network the start with the best dev score, if that is clearly better than the identity.

    Clearly: by more than two standard errors of the paired difference over the dev sample. `reciprocal_ranks` are those
    of its queries by the present weights, *Shape:* (q,). `closed` is the best closed form, for a network with `labels`.
    """
    weights = deepcopy(gnn.state_dict())
    found = {}
    for start in starts_of(gnn, closed):
        start.apply(gnn)
        found[start] = reciprocal_ranks()
    best = max(found, key=lambda start: found[start].mean())
    gained = found[best] - found[IDENTITY]
    error = gained.std(ddof=1) / np.sqrt(len(gained)) if len(gained) > 1 else np.inf
    chosen = best if gained.mean() > ERRORS * error else IDENTITY
    chosen.apply(gnn)
    scores = (found[start].mean() for start in (chosen, IDENTITY))
    log.info("GNN alone: starts from %s, dev RR@10 %.4f; the identity has %.4f", chosen, *scores)
    return ChosenStart(best=best, value=float(found[best].mean()), weights=weights)
