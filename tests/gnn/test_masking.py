"""Algorithm 1, lines 3-6: each pass trains every query once, and no way leads from a query into its batch."""

from typing import Any

import numpy as np
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.gnn.graph import Graph
from gnn_encoder.gnn.masking import MaskedSchedule, check_no_leak, propagation_mask

PASS = 23  # steps, with a beta of 0.1


def schedule(beta: float = 0.1, seed: int = 1, n: int = 103, **other: Any) -> MaskedSchedule:
    return MaskedSchedule(n, steps=3 * PASS, batch_size=4, beta=beta, seed=seed, **other)


@pytest.mark.parametrize(("beta", "folds", "steps"), [(0.05, 20, 23), (0.1, 10, 23), (0.3, 3, 25), (0.5, 2, 26)])
@pytest.mark.parametrize("one", [0, 2])
def test_every_query_trains_once_a_pass_and_folds_hold_their_batches(
    beta: float, folds: int, steps: int, one: int
) -> None:
    masked = schedule(beta)
    assert masked.rounds == folds
    of_pass = [masked.step(number) for number in range(one * steps, (one + 1) * steps)]
    assert sorted(np.concatenate([step.items for step in of_pass]).tolist()) == list(range(103))
    distinct = {tuple(step.fold.tolist()) for step in of_pass}
    assert len(distinct) == folds
    assert sorted(item for fold in distinct for item in fold) == list(range(103))
    assert {len(fold) for fold in distinct} <= {103 // folds, 103 // folds + 1}
    for step in of_pass:
        assert set(step.items.tolist()) <= set(step.fold.tolist())


def test_without_masks_the_batches_are_the_same() -> None:
    masked, plain = schedule(), schedule(masked=False)
    for number in range(3 * PASS):
        one, other = masked.step(number), plain.step(number)
        assert one.items.tolist() == other.items.tolist() and len(other.fold) == 0 < len(one.fold)


def test_a_second_phase_goes_on_where_the_first_ended() -> None:
    """Also within a pass."""
    first, second = schedule(), schedule(after=PASS + 6)
    for number in range(2 * PASS):
        assert second.step(number).items.tolist() == first.step(PASS + 6 + number).items.tolist()
    assert len(second) == 3 * PASS and second.before == PASS + 6


def test_a_step_follows_from_seed_and_number() -> None:
    def items(number: int, **other: Any) -> list[int]:
        return schedule(**other).step(number).items.tolist()

    straight, numbers = schedule(), [68, 3, 29, 30, 0, 51]
    found = {number: straight.step(number) for number in numbers}
    assert all(items(number) == step.items.tolist() for number, step in found.items())
    assert items(0) != items(0, seed=2) and items(0) != items(PASS)


def test_too_few_queries_for_the_folds() -> None:
    with pytest.raises(UserError, match="mgt.beta is 0.05: 20 folds need at least 20 training queries, there are 19"):
        schedule(0.05, n=19)


def test_propagation_mask() -> None:
    assert propagation_mask(5, np.array([3, 0])).tolist() == [False, True, True, False, True]


def test_a_planted_leak_is_found() -> None:
    draw = np.random.default_rng(0)
    passages = np.stack([draw.choice(40, 6, replace=False) for _ in range(60)])
    graph = Graph(passages=passages, score=draw.random(360), n_passages=40)
    fold = schedule(0.2, n=graph.n).step(0).fold
    propagation = propagation_mask(graph.n, fold)
    propagation[fold[0]] = True
    edges, _ = graph.passage_edges(np.unique(graph.passages[fold]), propagation)
    with pytest.raises(RuntimeError, match=f"1 masked queries can be reached in the graph, such as row {fold[0]}"):
        check_no_leak(fold, edges // graph.k)
