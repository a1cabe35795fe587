"""The pool of a step: the corpus whole, or a sample whose estimate of the softmax's sum is right on average."""

import numpy as np
import polars as pl
import pytest
import torch

from gnn_encoder.base.judgements import Identical
from gnn_encoder.gnn.tasks import CorpusSample, corpus_loss
from gnn_encoder.train.examples import to_examples

CERTAIN = np.array([7, 3, 7, 90])


def test_a_small_corpus_is_read_whole() -> None:
    pool = CorpusSample.draw(100, CERTAIN, 100, 40, np.random.default_rng(0))
    assert pool.passages.tolist() == list(range(100)) and not pool.stands_for.any()


def test_a_sample_has_the_certain_passages_and_each_passage_once() -> None:
    pool = CorpusSample.draw(100, CERTAIN, 60, 40, np.random.default_rng(0))
    certain = np.isin(pool.passages, CERTAIN)
    assert certain.sum() == 3 and (pool.stands_for[certain] == 0).all()
    assert (np.diff(pool.passages) > 0).all()
    assert np.exp(pool.stands_for).sum() == np.float32(100)  # each passage is stood for once


def test_the_estimated_sum_is_right_on_average() -> None:
    values = np.random.default_rng(1).random(100)
    estimates = []
    for seed in range(2_000):
        pool = CorpusSample.draw(100, CERTAIN, 60, 40, np.random.default_rng(seed))
        estimates.append((values[pool.passages] * np.exp(pool.stands_for)).sum())
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - values.sum()) < 4 * error


def test_copies_of_positives_and_the_query_itself_are_not_in_the_sum() -> None:
    """Query 0 asks for passage 1, of which 3 is a copy; query 1 for 0, and it is passage 2 itself.

    In the sum of query 0, passage 2 stands for three.
    """
    own = pl.DataFrame({"query": [1], "passage": [2]})
    same = Identical(copies=np.array([3]), firsts=np.array([1]), own=own)
    table = pl.DataFrame({"query": [0, 1], "positives": [[1], [0]], "negatives": [[0], [1]]})
    queries, passages = torch.eye(2, requires_grad=True), torch.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 3.0], [4.0, 5.0]])
    pool = CorpusSample(np.arange(4), np.log(np.array([1, 1, 3, 1], dtype=np.float32)))
    loss = corpus_loss(queries, passages, pool, np.array([0, 1]), to_examples(table, 4, identical=same), 1.0, of=2)
    # The scores of query 0 are 0, 1, 2, 4, of which the last is left out; of query 1: 1, 0, 3, 5 without the third.
    expected = (np.log(np.exp([0, 1, 2, 2, 2]).sum()) - 1 + np.log(np.exp([1, 0, 5]).sum()) - 1) / 2
    assert loss.item() == pytest.approx(expected)
    loss.backward()
    assert queries.grad is not None
    share = torch.tensor([0.0, 1.0, 2.0, 2.0, 2.0]).softmax(dim=0)
    torch.testing.assert_close(queries.grad[0], (share @ passages[[0, 1, 2, 2, 2]] - passages[1]) / 2)
    part = CorpusSample(np.array([0, 1, 2]), np.zeros(3, dtype=np.float32))
    assert part.spared(np.array([0, 1]), to_examples(table, 4, identical=same))[1].tolist() == [2]
