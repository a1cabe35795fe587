"""Which passages a query is connected to when its labelled ones must be among them."""

import numpy as np
import polars as pl
import pytest

from gnn_encoder.gnn.graph import labelled_first

PAIRS = {"query": pl.Int32, "passage": pl.Int32}


def test_by_hand() -> None:
    matrix = np.arange(6, dtype=np.float32)[:, None]  # passage p has the embedding (p,), so that it scores p
    queries = np.ones((3, 1), dtype=np.float32)
    passages = np.array([[5, 4, 3]] * 3)
    scores = passages.astype(np.float32)
    # Query 0 has a labelled passage among its top ones and one that was not found, query 1 none, query 2 more than k.
    pairs = pl.DataFrame([(0, 4), (0, 1), (2, 0), (2, 1), (2, 2), (2, 3)], schema=PAIRS, orient="row")
    found, of = labelled_first(passages, scores, pairs, queries, matrix)
    assert found.tolist() == [[4, 1, 5], [5, 4, 3], [3, 2, 1]]
    assert of.tolist() == found.tolist()


def test_against_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnn_encoder.gnn.graph.PAIRS_AT_A_TIME", 7)
    draw = np.random.default_rng(3)
    queries, matrix = draw.normal(size=(20, 4)).astype(np.float32), draw.normal(size=(30, 4)).astype(np.float16)
    every = queries @ matrix.astype(np.float32).T
    passages = np.argsort(-every, axis=1)[:, :5]
    pairs = pl.DataFrame({"query": draw.integers(20, size=40), "passage": draw.integers(30, size=40)}).unique()
    found, of = labelled_first(passages, np.take_along_axis(every, passages, 1), pairs, queries, matrix)
    for query in range(20):
        own = sorted(pairs.filter(query=query)["passage"].to_list(), key=lambda p: -every[query, p])
        assert found[query].tolist() == (own + [p for p in passages[query].tolist() if p not in own])[:5]
    np.testing.assert_allclose(of, np.take_along_axis(every, found, 1), rtol=1e-5)


def test_without_labels_nothing_changes() -> None:
    passages, scores = np.array([[2, 0], [1, 2]]), np.array([[3, 1], [2, 2]], dtype=np.float32)
    found, of = labelled_first(passages, scores, pl.DataFrame(schema=PAIRS), np.ones((2, 1)), np.ones((3, 1)))
    assert (found.tolist(), of.tolist()) == (passages.tolist(), scores.tolist())
