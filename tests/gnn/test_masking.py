"""Algorithm 1, lines 3-6: each pass trains every query once, and no way leads from a query into its batch."""

from typing import Any

import numpy as np
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.gnn.graph import Graph
from gnn_encoder.gnn.masking import MaskedSchedule, Step, check_no_leak, propagation_mask


def steps(schedule: MaskedSchedule, epoch: int) -> list[Step]:
    per_epoch = len(schedule) // 3
    return [schedule[number] for number in range(epoch * per_epoch, (epoch + 1) * per_epoch)]


def schedule(beta: float, seed: int = 1, n: int = 103, epochs: float = 3, **other: Any) -> MaskedSchedule:
    return MaskedSchedule(n, epochs=epochs, batch_size=4, beta=beta, seed=seed, **other)


@pytest.mark.parametrize(("beta", "folds"), [(0.05, 20), (0.1, 10), (0.3, 3), (0.5, 2)])
@pytest.mark.parametrize("epoch", [0, 2])
def test_every_query_trains_once_a_pass_and_folds_hold_their_batches(beta: float, folds: int, epoch: int) -> None:
    masked = schedule(beta)
    assert masked.rounds_per_epoch == folds
    assert sorted(np.concatenate([step.items for step in steps(masked, epoch)]).tolist()) == list(range(103))
    distinct = {tuple(step.fold.tolist()) for step in steps(masked, epoch)}
    assert len(distinct) == folds
    assert sorted(item for fold in distinct for item in fold) == list(range(103))
    assert {len(fold) for fold in distinct} <= {103 // folds, 103 // folds + 1}
    for step in steps(masked, epoch):
        assert set(step.items.tolist()) <= set(step.fold.tolist())


def test_without_masks_the_batches_are_the_same() -> None:
    masked, plain = schedule(0.1), schedule(0.1, masked=False)
    assert len(plain) == len(masked)
    for epoch in range(3):
        for one, other in zip(steps(masked, epoch), steps(plain, epoch), strict=True):
            assert one.items.tolist() == other.items.tolist() and len(other.fold) == 0 < len(one.fold)


def test_a_second_phase_goes_on_where_the_first_ended() -> None:
    whole, first, second = schedule(0.1), schedule(0.1, epochs=2), schedule(0.1, epochs=1, after=2)
    assert (first.before, second.before, len(first) + len(second)) == (0, len(first), len(whole))
    assert len(list(second)) == len(second), "a loop over it ends"
    for number in range(len(second)):
        assert second[number].items.tolist() == whole[second.before + number].items.tolist()


def test_the_last_pass_may_end_early() -> None:
    whole, part = schedule(0.1), schedule(0.1, epochs=1.5)
    assert len(part) == len(whole) // 2
    assert [one.items.tolist() for one in part] == [whole[number].items.tolist() for number in range(len(part))]
    assert schedule(0.1, epochs=1, after=1.5).before == schedule(0.1, after=2).before


def test_a_step_follows_from_seed_and_number() -> None:
    def items(number: int, **other: Any) -> list[int]:
        return schedule(0.1, **other)[number].items.tolist()

    straight, numbers = schedule(0.1), [68, 3, 29, 30, 0, 51]
    found = {number: straight[number] for number in numbers}
    assert all(items(number) == step.items.tolist() for number, step in found.items())
    assert items(0) != items(0, seed=2) and items(0) != items(len(straight) // 3)


def test_too_few_queries_for_the_folds() -> None:
    with pytest.raises(UserError, match="mgt.beta is 0.05: 20 folds need at least 20 training queries, there are 19"):
        schedule(0.05, n=19)


def test_propagation_mask() -> None:
    assert propagation_mask(5, np.array([3, 0])).tolist() == [False, True, True, False, True]


def test_a_planted_leak_is_found() -> None:
    draw = np.random.default_rng(0)
    passages = np.stack([draw.choice(40, 6, replace=False) for _ in range(60)])
    graph = Graph(passages=passages, score=draw.random(360), n_passages=40)
    fold = steps(schedule(0.2, n=graph.n), 0)[0].fold
    propagation = propagation_mask(graph.n, fold)
    propagation[fold[0]] = True
    edges, _ = graph.passage_edges(np.unique(graph.passages[fold]), propagation)
    with pytest.raises(RuntimeError, match=f"1 masked queries can be reached in the graph, such as row {fold[0]}"):
        check_no_leak(fold, edges // graph.k)
