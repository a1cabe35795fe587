"""Several views a passage: the best one counts, a passage comes once, k different passages always come."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import faiss
import numpy as np
import pytest

from gnn_encoder.base import matrix as arrays
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.view_pool import BEST, Pool, PoolKind
from gnn_encoder.search import exact
from gnn_encoder.search import faiss_index as module
from gnn_encoder.search.exact import _Faiss, _Torch, ways_top_k
from gnn_encoder.search.faiss_index import PassageIndex, build, fill, search_views

Save = Callable[..., Path]
VIEWS = 3
CPU = _Faiss()


def brute_force(matrix: np.ndarray, queries: np.ndarray, k: int, views: int = VIEWS) -> tuple[np.ndarray, np.ndarray]:
    """The oracle: every score of every view in float64, their maximum, a stable sort."""
    of_passage = matrix.astype(np.float64).reshape(-1, VIEWS, matrix.shape[1])[:, :views]
    scores = np.einsum("qd,pvd->qpv", queries.astype(np.float64), of_passage).max(axis=2)
    rows = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return rows, np.take_along_axis(scores, rows, axis=1)


@pytest.fixture
def matrix() -> np.ndarray:
    """150 passages of 3 views in whole numbers: every inner product is exact, and very many are equal."""
    return np.random.default_rng(0).integers(-2, 3, size=(450, 4)).astype(np.float32)


@pytest.fixture
def queries() -> np.ndarray:
    return np.random.default_rng(1).integers(-2, 3, size=(30, 4)).astype(np.float32)


def flat(matrix: np.ndarray) -> faiss.Index:
    index = faiss.IndexFlatIP(matrix.shape[1])
    index.add(np.ascontiguousarray(matrix, dtype=np.float32))
    return index


def check(rows: np.ndarray, scores: np.ndarray, matrix: np.ndarray, queries: np.ndarray, k: int) -> None:
    """Each passage once, its own best score, the k best scores, the lower row first among equals."""
    _, expected = brute_force(matrix, queries, k)
    assert rows.shape == scores.shape == expected.shape
    assert all(len(set(row)) == k and min(row) >= 0 for row in rows.tolist())
    np.testing.assert_array_equal(scores, expected)
    own = np.einsum("qd,qkvd->qkv", queries, matrix.reshape(-1, VIEWS, matrix.shape[1])[rows]).max(axis=2)
    np.testing.assert_array_equal(own, scores)
    tied = np.diff(scores, axis=1) == 0
    assert (np.diff(rows, axis=1)[tied] > 0).all()


# --- the index --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 7, 149, 150])
def test_index_against_brute_force_with_ties(matrix: np.ndarray, queries: np.ndarray, k: int) -> None:
    check(*search_views(flat(matrix), VIEWS, queries, k), matrix, queries, k)


BY_HAND = np.array(
    [[9, 0], [8, 1], [7, 2], [6, 5], [6, 4], [6, 3], [5, 9], [1, 0], [1, 1], [0, 7], [0, 8], [0, 6]], dtype=np.float32
)


def test_views_of_one_passage_fill_the_first_ranks() -> None:
    passages, scores = search_views(flat(BY_HAND), VIEWS, np.eye(2, dtype=np.float32), 3)
    # Query 0: 9 8 7 6 6 6 are of passages 0 and 1 alone, so it needs more. Query 1: 9 8 7 6 5 4 are of three.
    assert passages.tolist() == [[0, 1, 2], [2, 3, 1]]
    assert scores.tolist() == [[9, 6, 5], [9, 8, 5]]


def test_more_vectors_are_fetched_where_they_are_needed() -> None:
    """Passage 0 has 16 views, all best for query 0: 4 vectors do not do there, nor 8 and 16; 32 do."""
    views, matrix = 16, np.zeros((4 * 16, 2), dtype=np.float32)
    matrix[:16, 0] = 5
    matrix[16::16] = [[3, 1], [2, 2], [1, 3]]
    passages, scores = search_views(flat(matrix), views, np.eye(2, dtype=np.float32), 2)
    assert passages.tolist() == [[0, 1], [3, 2]]
    assert scores.tolist() == [[5, 3], [3, 2]]


def test_queries_in_chunks(matrix: np.ndarray, queries: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = search_views(flat(matrix), VIEWS, queries, 10)
    monkeypatch.setattr(module, "MERGE_ENTRIES", 7 * 30)  # seven queries at a time
    parts = search_views(flat(matrix), VIEWS, queries, 10)
    np.testing.assert_array_equal(parts, whole)
    assert search_views(flat(matrix), VIEWS, queries[:0], 10)[0].shape == (0, 10)


def test_an_approximate_index_that_finds_fewer(save_matrix: Save, matrix: np.ndarray, queries: np.ndarray) -> None:
    index = fill(save_matrix(matrix, views=VIEWS), "IVF30,Flat", 0)
    passages, scores = search_views(index, VIEWS, queries, 140)
    missing = passages < 0
    assert missing.any() and not missing[:, 0].any()
    assert (np.diff(missing.astype(int), axis=1) >= 0).all()  # at the end
    assert (scores[missing] == np.finfo(np.float32).min).all()
    for row in passages.tolist():
        present = [passage for passage in row if passage >= 0]
        assert len(set(present)) == len(present)


# --- on disk ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(save_matrix: Save, save_passages: Callable[[int], Path], matrix: np.ndarray, tmp_path: Path) -> Path:
    pids = save_passages(150)
    source = save_matrix(matrix, views=VIEWS)
    build(source, tmp_path / "index", factory="Flat", pids=pids, system="dual_cross", seed=0)
    return tmp_path / "index"


def test_an_index_knows_its_views(folder: Path, matrix: np.ndarray, queries: np.ndarray) -> None:
    index = PassageIndex.open(folder)
    assert (index.passages, index.views, index.index.ntotal, index.dimension) == (150, 3, 450, 4)
    assert json.loads((folder / "manifest.json").read_text())["views"] == 3
    check(*index.search(queries, 20), matrix, queries, 20)
    with pytest.raises(UserError, match="k is 151: must be from 1 to the number of passages, 150"):
        index.search(queries, 151)


# --- streaming --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("views", [1, 2, 3])
@pytest.mark.parametrize("block_rows", [1, 50, 65_536])
@pytest.mark.parametrize("k", [1, 130, 150])
@pytest.mark.parametrize(("engine", "dtype"), [(CPU, "float16"), (CPU, "float32"), (_Torch("cpu"), "float32")])
def test_streaming_against_brute_force_with_ties(
    save_matrix: Save,
    matrix: np.ndarray,
    queries: np.ndarray,
    views: int,
    block_rows: int,
    k: int,
    engine: _Faiss | _Torch,
    dtype: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arrays, "READ_ROWS", block_rows)
    monkeypatch.setattr(exact, "_engine", lambda: engine)
    monkeypatch.setattr(exact, "SCORES", 700)  # of all queries with some passages
    folder = save_matrix(matrix.astype(dtype), views=VIEWS)
    rows, scores = ways_top_k(folder, queries, k, [(views, BEST)])[0]
    expected_rows, expected_scores = brute_force(matrix, queries, k, views)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_array_equal(scores, expected_scores)


def test_a_curve_of_views_is_the_searches_one_by_one(
    save_matrix: Save, matrix: np.ndarray, queries: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "READ_ROWS", 50)
    monkeypatch.setattr(exact, "MERGE_ENTRIES", 20 * 11)  # eleven queries at a time
    folder = save_matrix(matrix, views=VIEWS)
    ways = [(views, Pool(kind)) for views in range(1, VIEWS + 1) for kind in get_args(PoolKind)]
    for (views, pool), (rows, scores) in zip(ways, ways_top_k(folder, queries, 20, ways), strict=True):
        expected = ways_top_k(folder, queries, 20, [(views, pool)])[0]
        np.testing.assert_array_equal(rows, expected[0])
        np.testing.assert_array_equal(scores, expected[1])


# --- the mean ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("views", [1, 2, 3])
@pytest.mark.parametrize("block_rows", [7, 65_536])
def test_streaming_the_mean(save_matrix: Save, views: int, block_rows: int, monkeypatch: Any) -> None:
    """The oracle: every score of every view in float64, their mean, a stable sort."""
    monkeypatch.setattr(arrays, "READ_ROWS", block_rows)
    generator = np.random.default_rng(5)
    matrix, queries = (generator.normal(size=(n, 8)).astype(np.float32) for n in (450, 30))
    of_views = np.einsum("qd,pvd->qpv", queries, matrix.reshape(-1, VIEWS, 8)[:, :views], dtype=np.float64)
    means = of_views.mean(axis=2)
    expected = np.argsort(-means, axis=1, kind="stable")[:, :40]
    folder = save_matrix(matrix, views=VIEWS)
    rows, scores = ways_top_k(folder, queries, 40, [(views, Pool("mean"))])[0]
    np.testing.assert_allclose(scores, np.take_along_axis(means, expected, axis=1), rtol=1e-4, atol=1e-5)
    assert (rows == expected).mean() > 0.99, "of two scores that are equal but for rounding either comes first"
