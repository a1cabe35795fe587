"""Where training starts: the best start on dev, if it is clearly better than the identity."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnn_encoder.controls.closed_form import ClosedForm
from gnn_encoder.gnn.network import QueryPassageGNN
from gnn_encoder.gnn.start import IDENTITY, SHUT, Start, choose_start, starts_of

from .oracle import network


def present(gnn: QueryPassageGNN) -> Start:
    assert gnn.passage_attention.b_l is not None
    return Start(gnn.gate.bias[0].item(), gnn.passage_attention.b_l[0].item(), gnn.combine.weight[0, 0].item())


def scoring(gnn: QueryPassageGNN, gains: dict[Start, NDArray[np.float64]]) -> Callable[[], NDArray[np.float64]]:
    return lambda: 0.5 + gains.get(present(gnn), np.zeros(100))


def test_the_identity_is_what_a_new_network_is() -> None:
    gnn = network()
    before = {name: value.clone() for name, value in gnn.state_dict().items()}
    IDENTITY.apply(gnn)
    for name, value in gnn.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


def test_a_start_is_taken_if_it_is_clearly_better() -> None:
    draw, best, second = np.random.default_rng(1), Start(2.0, 8.0, 0.0), Start(0.0, 8.0, 0.5)
    wide, noise = draw.normal(0.02, 0.01, 100), draw.normal(0, 0.1, 100)  # ten standard errors above 0 and more
    noise += 0.015 - noise.mean()  # one and a half standard errors
    for gains, chosen in (({second: wide, best: wide + 0.01}, best), ({best: noise}, IDENTITY)):
        gnn = network()
        tried = choose_start(gnn, scoring(gnn, gains))
        assert tried.best == best and present(gnn) == chosen


def shut_and_summed(gnn: QueryPassageGNN) -> bool:
    return bool(gnn.W_l.any()) and gnn.gate.bias[0].item() == SHUT


def test_sums_start_as_the_closed_form_if_it_is_clearly_better() -> None:
    gnn = network()
    closed = ClosedForm(weight=0.4, power=0.75, ridge=3.0, whitener=np.diag([4, 3, 2, 1]).astype(np.float32))
    # Passage 0 has one label, 1 two, 2 four; in each column their queries add up to 1.
    passages, queries = torch.eye(3, 4), torch.tensor([[1.0], [0.5], [0.25]]).expand(3, 4)
    none, one = torch.empty(0, dtype=torch.int64), torch.tensor([0, 1, 1, 2, 2, 2, 2])

    def own() -> Tensor:
        return gnn.interactive_passages(passages, queries, queries, none, none, labels=(one, one)).embeddings

    with torch.no_grad():
        for gain in (0.0, 0.1):
            choose_start(gnn, lambda gain=gain: np.full(9, 0.5 + gain * shut_and_summed(gnn)), closed)
            assert shut_and_summed(gnn) == (gain > 0) and (gain > 0 or present(gnn) == IDENTITY)
        gate = 1 + torch.sigmoid(torch.tensor(SHUT))
        scale = 0.4 * torch.tensor([1, 2, 4]) ** -0.75
        torch.testing.assert_close(own(), gate * passages + scale[:, None] * torch.tensor([4.0, 3.0, 2.0, 1.0]))


def test_training_that_ends_below_the_best_start_is_undone() -> None:
    gnn, best = network(), Start(2.0, 8.0, 0.0)
    best.apply(gnn)
    untrained = {name: value.clone() for name, value in gnn.state_dict().items()}
    IDENTITY.apply(gnn)
    noise = np.concatenate([np.full(50, 0.12), np.full(50, -0.1)])  # less than a standard error
    tried = choose_start(gnn, scoring(gnn, {best: noise}))
    with torch.no_grad():
        for weight in gnn.parameters():
            weight.add_(1.0)
    trained = {name: value.clone() for name, value in gnn.state_dict().items()}
    for reached, expected in ((0.511, trained), (0.509, untrained)):
        tried.restore(gnn, reached)
        for name, value in gnn.state_dict().items():
            torch.testing.assert_close(value, expected[name], rtol=0, atol=0)


def test_a_network_tries_what_it_has_weights_for() -> None:
    for change, count in (({}, 12), ({"layers": 1}, 6), ({"gate": 0.5}, 4)):
        starts = starts_of(network(**change))
        assert len(set(starts)) == len(starts) == count and starts[0] == IDENTITY
