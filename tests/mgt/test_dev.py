"""The dev score that training watches, by hand."""

import numpy as np
import polars as pl
import pytest
import torch

from gnn_encoder.mgt.dev import (
    dev_sample,
    mean_reciprocal_rank,
    no_grad_eval,
    retrieved_pairs,
    sample_queries,
)

PAIR = {"query": pl.Int32, "passage": pl.Int32}
PAIRS = pl.DataFrame([(1, 30), (1, 5), (4, 7), (6, 5), (9, 2)], schema=PAIR, orient="row")


def test_mean_reciprocal_rank_by_hand() -> None:
    # Query i's scores are row i of these; the passages are the unit vectors.
    scores = torch.tensor([[3.0, 2.0, 1.0, 0.0], [0.0, 1.0, 2.0, 3.0], [4.0, 3.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0]])
    relevant = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]], dtype=bool)  # ranks 1, 3, 2, none
    assert mean_reciprocal_rank(scores, torch.eye(4), relevant) == pytest.approx((1 + 1 / 3 + 1 / 2 + 0) / 4)
    assert mean_reciprocal_rank(scores, torch.eye(4), relevant, depth=2) == pytest.approx((1 + 0 + 1 / 2 + 0) / 4)


def test_ranks_past_ten_count_for_nothing() -> None:
    scores = -torch.arange(12.0)[None]
    for rank, expected in ((10, 1 / 10), (11, 0.0)):
        relevant = np.arange(12)[None] == rank - 1
        assert mean_reciprocal_rank(scores, torch.eye(12), relevant) == pytest.approx(expected)


def test_pool_holds_what_was_retrieved_and_every_positive() -> None:
    sample = dev_sample(np.array([1, 6]), PAIRS, np.array([[8, 5], [8, 40]]))
    assert sample.queries.tolist() == [1, 6]
    assert sample.pool.tolist() == [5, 8, 30, 40]
    assert sample.relevant.tolist() == [[True, False, True, False], [True, False, False, False]]


def test_what_was_retrieved_as_pairs() -> None:
    found = retrieved_pairs(np.array([4, 1]), np.array([[8, 5], [0, 40]]))
    assert found.rows() == [(4, 8), (4, 5), (1, 0), (1, 40)] and found.schema == PAIR


def test_sample_is_of_judged_queries_and_fixed_by_the_seed() -> None:
    assert sample_queries(PAIRS, 99, 0).tolist() == [1, 4, 6, 9]
    chosen = {tuple(sample_queries(PAIRS, 2, seed).tolist()) for seed in range(50)}
    assert len(chosen) == 6 and all(a < b for a, b in chosen)
    assert sample_queries(PAIRS, 2, 7).tolist() == sample_queries(PAIRS, 2, 7).tolist()


@pytest.mark.parametrize("training", [True, False])
def test_mode_is_put_back(training: bool) -> None:
    module = torch.nn.Linear(1, 1).train(training)
    with no_grad_eval(module):
        assert not module.training and not torch.is_grad_enabled()
    assert module.training == training and torch.is_grad_enabled()
    with pytest.raises(KeyError), no_grad_eval(module):
        raise KeyError
    assert module.training == training and torch.is_grad_enabled()
