"""The pool of a step: the corpus whole, or a sample whose estimate of the softmax's sum is right on average."""

import numpy as np

from gnn_encoder.mgt.corpus_softmax import Pool

CERTAIN = np.array([7, 3, 7, 90])


def test_a_small_corpus_is_read_whole() -> None:
    pool = Pool.draw(100, CERTAIN, 100, 40, np.random.default_rng(0))
    assert pool.passages.tolist() == list(range(100)) and not pool.stands_for.any()


def test_a_sample_has_the_certain_passages_and_each_passage_once() -> None:
    pool = Pool.draw(100, CERTAIN, 60, 40, np.random.default_rng(0))
    certain = np.isin(pool.passages, CERTAIN)
    assert certain.sum() == 3 and (pool.stands_for[certain] == 0).all()
    assert (np.diff(pool.passages) > 0).all()
    assert np.exp(pool.stands_for).sum() == np.float32(100)  # each passage is stood for once


def test_the_estimated_sum_is_right_on_average() -> None:
    values = np.random.default_rng(1).random(100)
    estimates = []
    for seed in range(2_000):
        pool = Pool.draw(100, CERTAIN, 60, 40, np.random.default_rng(seed))
        estimates.append((values[pool.passages] * np.exp(pool.stands_for)).sum())
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - values.sum()) < 4 * error
