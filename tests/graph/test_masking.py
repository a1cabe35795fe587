"""Masked Graph Training: folds, and no way from a supervised query into its batch."""

import numpy as np
import pytest

from gnn_encoder.core.errors import UserError
from gnn_encoder.graph.masking import check_no_leak, folds, propagation_mask
from gnn_encoder.graph.structure import Graph


@pytest.mark.parametrize(("beta", "count"), [(0.05, 20), (0.3, 3), (0.5, 2)])
def test_every_query_is_in_exactly_one_fold(beta: float, count: int) -> None:
    rows = np.arange(10, 113)  # not from 0, and no multiple
    parts = folds(rows, beta=beta, seed=1, epoch=0)
    assert len(parts) == count
    assert np.array_equal(np.sort(np.concatenate(parts)), rows)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_the_split_is_decided_by_seed_and_epoch() -> None:
    def split(seed: int, epoch: int) -> list[list[int]]:
        return [part.tolist() for part in folds(np.arange(50), beta=0.2, seed=seed, epoch=epoch)]

    assert split(1, 0) == split(1, 0)
    assert split(1, 0) != split(1, 1)
    assert split(1, 0) != split(2, 0)


@pytest.mark.parametrize("beta", [0.0, 0.51, 1.0, -0.1, float("nan")])
def test_beta_outside_its_bounds_is_told(beta: float) -> None:
    with pytest.raises(UserError, match="mgt.beta is .*: must be above 0 and at most 0.5"):
        folds(np.arange(50), beta=beta, seed=0, epoch=0)


def test_too_few_queries_are_told() -> None:
    with pytest.raises(UserError, match="20 folds need at least 20 training queries, there are 3; raise"):
        folds(np.arange(3), beta=0.05, seed=0, epoch=0)


def test_propagation_mask() -> None:
    assert propagation_mask(5, np.array([3, 0])).tolist() == [False, True, True, False, True]


def random_graph() -> Graph:
    generator = np.random.default_rng(0)
    n, k, m = 60, 6, 40
    columns = {
        "query": np.repeat(np.arange(n), k),
        "passage": np.concatenate([generator.choice(m, k, replace=False) for _ in range(n)]),
        "rank": np.tile(np.arange(k), n),
        "score": generator.random(n * k),
    }
    return Graph.from_edges(columns, n, m)


def test_no_supervised_query_is_reachable() -> None:
    graph, seen = random_graph(), 0
    for fold in folds(np.arange(graph.n), beta=0.2, seed=0, epoch=0):
        propagation = propagation_mask(graph.n, fold)
        for batch in np.array_split(fold, 3):
            passages = np.unique(graph.passages[batch])  # their own passages: the likeliest leak
            edges, _ = graph.passage_edges(passages, propagation)
            reachable = edges // graph.k
            assert not np.isin(reachable, fold).any()
            check_no_leak(fold, reachable)
            seen += len(reachable)
    assert seen > 0


def test_a_planted_leak_is_found() -> None:
    graph = random_graph()
    fold = folds(np.arange(graph.n), beta=0.2, seed=0, epoch=0)[0]
    propagation = propagation_mask(graph.n, fold)
    propagation[fold[0]] = True
    edges, _ = graph.passage_edges(np.unique(graph.passages[fold]), propagation)
    with pytest.raises(RuntimeError, match=f"1 masked queries can be reached in the graph, such as row {fold[0]}"):
        check_no_leak(fold, edges // graph.k)
