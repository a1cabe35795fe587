"""Algorithm 1, lines 3-6: each pass trains every query once, none can be reached from its batch; what a step scores."""

from typing import Any
from unittest.mock import Mock

import numpy as np
import polars as pl
import pytest
import torch

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.judgements import Identical
from gnn_encoder.gnn.masking import CorpusSample, Supervision, check_no_leak
from gnn_encoder.gnn.tasks import corpus_loss
from gnn_encoder.pipeline.params import Alone, PhaseOne
from gnn_encoder.train.examples import to_examples

from ..train.conftest import LISTS

PASS = 23  # steps, with a beta of 0.1


def schedule(beta: float = 0.1, seed: int = 1, n: int = 103, **other: Any) -> Supervision:
    """Of n queries, which are the examples in order."""
    examples = to_examples(pl.DataFrame([range(n), [[0]] * n, [[]] * n], LISTS), 1)
    phase = Alone.model_construct(steps=3 * PASS, batch_size=4)
    mgt = PhaseOne.model_construct(beta=beta, negatives=0, masking="mgt")
    return Supervision(examples, Mock(), mgt, phase, seed, **other)


@pytest.mark.parametrize(("beta", "folds", "steps"), [(0.05, 20, 23), (0.1, 10, 23), (0.3, 3, 25), (0.5, 2, 26)])
@pytest.mark.parametrize("one", [0, 2])
def test_every_query_trains_once_a_pass_and_folds_hold_their_batches(
    beta: float, folds: int, steps: int, one: int
) -> None:
    masked = schedule(beta)
    assert masked.rounds == folds
    of_pass = [masked.items(number) for number in range(one * steps, (one + 1) * steps)]
    assert sorted(np.concatenate([items for items, _ in of_pass]).tolist()) == list(range(103))
    distinct = {tuple(fold.tolist()) for _, fold in of_pass}
    assert len(distinct) == folds
    assert sorted(query for fold in distinct for query in fold) == list(range(103))
    assert {len(fold) for fold in distinct} <= {103 // folds, 103 // folds + 1}
    assert all(set(items.tolist()) <= set(fold.tolist()) for items, fold in of_pass)


def test_a_step_follows_from_seed_and_number() -> None:
    """In any order, without masks, and where a second phase goes on within a pass of the first."""
    straight = schedule()
    for number in (68, 3, 29, 30, 0, 51):
        (items, fold), (plain, none) = straight.items(number), schedule(masked=False).items(number)
        assert schedule().items(number)[0].tolist() == items.tolist() == plain.tolist()
        assert len(none) == 0 < len(fold)
        second = schedule(before=PASS + 6).items(number)[0]
        assert second.tolist() == straight.items(PASS + 6 + number)[0].tolist()
    first = straight.items(0)[0].tolist()
    assert first != schedule(seed=2).items(0)[0].tolist() and first != straight.items(PASS)[0].tolist()


def test_too_few_queries_for_the_folds() -> None:
    with pytest.raises(UserError, match="mgt.beta is 0.05: 20 folds need at least 20 training queries, there are 19"):
        schedule(0.05, n=19)


def test_too_many_processes_for_the_smallest_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnn_encoder.base.distributed.world_size", lambda: 3)
    with pytest.raises(UserError, match="a batch of 2 queries is too small for 3 processes; raise batch_size .*beta"):
        schedule(0.05, n=41)  # the first of its 20 folds has three


def test_a_leak_is_found() -> None:
    """That it stops a training: test_tasks.py."""
    check_no_leak(np.array([3, 1]), np.array([0, 4, 4]))
    with pytest.raises(RuntimeError, match="1 masked queries can be reached in the graph, such as row 3"):
        check_no_leak(np.array([3, 1]), np.array([0, 3, 4, 3]))


# --- the softmax over the corpus

CERTAIN = np.array([7, 3, 7, 90])


def test_a_sample_stands_for_the_corpus() -> None:
    """It has the certain passages and each passage once; an estimated sum is right on average."""
    values, estimates = np.random.default_rng(1).random(100), []
    for seed in range(2_000):
        pool = CorpusSample.draw(100, CERTAIN, 40, np.random.default_rng(seed))
        estimates.append((values[pool.passages] * np.exp(pool.stands_for)).sum())
    certain = np.isin(pool.passages, CERTAIN)
    assert certain.sum() == 3 and (pool.stands_for[certain] == 0).all() and (np.diff(pool.passages) > 0).all()
    assert np.exp(pool.stands_for).sum() == pytest.approx(100)
    assert abs(np.mean(estimates) - values.sum()) < 4 * np.std(estimates) / np.sqrt(len(estimates))


def test_copies_of_positives_and_the_query_itself_are_not_in_the_sum() -> None:
    """Query 0 asks for passage 1, of which 3 is a copy; query 1 for 0, and it is passage 2 itself.

    In the sum of query 0, passage 2 stands for three.
    """
    own = pl.DataFrame({"query": [1], "passage": [2]})
    same = Identical(copies=np.array([3]), firsts=np.array([1]), own=own)
    table = pl.DataFrame({"query": [0, 1], "positives": [[1], [0]], "negatives": [[0], [1]]})
    queries, passages = torch.eye(2, requires_grad=True), torch.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 3.0], [4.0, 5.0]])
    both, examples = np.array([0, 1]), to_examples(table, 4, identical=same)
    pool = CorpusSample(np.arange(4), np.log(np.array([1, 1, 3, 1], dtype=np.float32)))
    loss = corpus_loss(queries, passages, pool, both, examples, 1.0, of=2)
    # The scores of query 0 are 0, 1, 2, 4, of which the last is left out; of query 1: 1, 0, 3, 5 without the third.
    expected = (np.log(np.exp([0, 1, 2, 2, 2]).sum()) - 1 + np.log(np.exp([1, 0, 5]).sum()) - 1) / 2
    assert loss.item() == pytest.approx(expected)
    loss.backward()
    assert queries.grad is not None
    share = torch.tensor([0.0, 1.0, 2.0, 2.0, 2.0]).softmax(dim=0)
    torch.testing.assert_close(queries.grad[0], (share @ passages[[0, 1, 2, 2, 2]] - passages[1]) / 2)
    part = CorpusSample(np.arange(3), np.zeros(3, dtype=np.float32))  # which lacks the copy
    expected = (np.log(np.exp([0, 1, 2]).sum()) - 1 + np.log(np.exp([1, 0]).sum()) - 1) / 2
    assert corpus_loss(queries, passages[:3], part, both, examples, 1.0, of=2).item() == pytest.approx(expected)
