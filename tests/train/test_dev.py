"""The dev sample that trainings are scored on, by hand."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from gnn_encoder.base.tables import DEV_CANDIDATES, read_table, write_table
from gnn_encoder.train import dev
from gnn_encoder.train.candidates import candidates_of, retrieved_pairs, sample_queries
from gnn_encoder.train.dev import dev_sample, pooled_sample, ranked, reciprocal_ranks

PAIR = {"query": pl.Int32, "passage": pl.Int32}
PAIRS = pl.DataFrame([(1, 30), (1, 5), (4, 7), (6, 5), (9, 2)], schema=PAIR, orient="row")
RETRIEVED = pl.DataFrame([(1, 5), (1, 8), (1, 8), (6, 40), (4, 11)], schema=PAIR, orient="row")
CANDIDATES = [(1, 5, True), (1, 8, False), (1, 30, True), (6, 5, True), (6, 40, False)]


def test_pool_holds_what_was_retrieved_and_every_positive() -> None:
    sample = dev_sample(np.array([1, 6]), PAIRS, np.array([[8, 5], [8, 40]]))
    assert sample.queries.tolist() == [1, 6]
    assert sample.pool.tolist() == [5, 8, 30, 40]
    assert sample.relevant.tolist() == [[True, False, True, False], [True, False, False, False]]


def test_a_query_does_not_rank_itself() -> None:
    own = pl.DataFrame([(1, 8), (2, 5), (6, 41)], schema=PAIR, orient="row")
    sample = dev_sample(np.array([1, 6]), PAIRS, np.array([[8, 5], [8, 40]]), own)
    assert sample.own is not None and np.argwhere(sample.own).tolist() == [[0, 1]]
    scores = torch.tensor([[2.0, 9.0, 1.0, 0.0], [2.0, 9.0, 1.0, 0.0]])  # of 5, 8, 30 and 40
    assert reciprocal_ranks(scores, torch.eye(4), sample.relevant, own=sample.own).tolist() == [1.0, 0.5]
    assert dev_sample(np.array([1, 6]), PAIRS, np.array([[8, 5]]), own.clear()).own is None


def test_what_was_retrieved_as_pairs() -> None:
    found = retrieved_pairs(np.array([4, 1]), np.array([[8, 5], [0, 40]]))
    assert found.rows() == [(4, 8), (4, 5), (1, 0), (1, 40)] and found.schema == PAIR


def test_sample_is_of_judged_queries_and_fixed_by_the_seed() -> None:
    assert sample_queries(PAIRS, 99, 0).tolist() == [1, 4, 6, 9]
    chosen = {tuple(sample_queries(PAIRS, 2, seed).tolist()) for seed in range(50)}
    assert len(chosen) == 6 and all(a < b for a, b in chosen)
    assert sample_queries(PAIRS, 2, 7).tolist() == sample_queries(PAIRS, 2, 7).tolist()


def test_candidates_are_what_was_retrieved_for_a_sampled_query_and_its_positives() -> None:
    found = candidates_of(np.array([1, 6]), PAIRS, RETRIEVED)
    assert found.rows() == CANDIDATES
    assert found.to_arrow().schema.equals(DEV_CANDIDATES)


@pytest.mark.parametrize(("small", "pool"), [(40, [5, 8, 30, 40]), (41, list(range(41)))])
def test_the_sample_that_stage_positives_wrote(
    tmp_path: Path, small: int, pool: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = candidates_of(np.array([1, 6]), PAIRS, RETRIEVED)
    write_table(tmp_path / "candidates.parquet", DEV_CANDIDATES, [table.to_arrow()])
    monkeypatch.setattr(dev, "WHOLE", small)
    sample = pooled_sample(read_table(tmp_path / "candidates.parquet", DEV_CANDIDATES), 41)
    assert sample.queries.tolist() == [1, 6] and sample.pool.tolist() == pool
    found = [sample.pool[mask].tolist() for mask in sample.relevant]
    assert found == [[5, 30], [5]], "of its own positives alone"


def test_a_small_corpus_is_ranked_whole() -> None:
    assert ranked(np.array([[3, 1]]), 4, 4).tolist() == [0, 1, 2, 3]
    assert ranked(np.array([[3, 1]]), 5, 4).tolist() == [[3, 1]]
