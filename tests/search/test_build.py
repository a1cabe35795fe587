import json
from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np
import pyarrow.parquet as pq
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.search.faiss_index import build, fill

Save = Callable[..., Path]
Passages = Callable[[int], Path]


@pytest.fixture
def matrix() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(500, 16)).astype(np.float32)


def test_files_of_a_flat_index(matrix: np.ndarray, save_matrix: Save, save_passages: Passages, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    build(save_matrix(matrix), folder, factory="Flat", pids=save_passages(500), system="dual_encoder", seed=0)
    index = faiss.read_index(str(folder / "index.faiss"))
    assert type(index) is faiss.IndexFlatIP
    np.testing.assert_array_equal(index.reconstruct_n(0, 500), matrix)
    assert pq.read_table(folder / "pids.parquet").to_pydict() == {"pid": [f"p{i}" for i in range(500)]}
    manifest = json.loads((folder / "manifest.json").read_text())
    assert len(manifest.pop("fingerprint")) == 32
    assert manifest == {"factory": "Flat", "passages": 500, "views": 1, "dimension": 16, "system": "dual_encoder"}


def test_same_bytes_twice(matrix: np.ndarray, save_matrix: Save, save_passages: Passages, tmp_path: Path) -> None:
    embeddings, pids = save_matrix(matrix), save_passages(500)
    for name in ("a", "b"):
        build(embeddings, tmp_path / name, factory="IVF4,Flat", pids=pids, system="s", seed=7)
    for file in ("index.faiss", "pids.parquet", "manifest.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


@pytest.mark.parametrize("factory", ["HNSW16", "IVF8,Flat", "PQ8x4", "OPQ8,IVF4,PQ8x4", "SQ8"])
def test_factories_find_most_of_the_best(matrix: np.ndarray, save_matrix: Save, factory: str) -> None:
    queries = matrix[:50]
    scores, rows = fill(save_matrix(matrix), factory, 0).search(queries, 10)
    best = np.argsort(-(queries @ matrix.T), axis=1)[:, :10]
    overlap = np.mean([len(set(found) & set(right)) / 10 for found, right in zip(rows, best, strict=True)])
    assert overlap > (0.4 if "PQ" in factory else 0.9)
    assert (np.diff(scores, axis=1) <= 0).all()  # inner product: larger is better


def test_inverted_file_is_searched_in_more_than_one_list(matrix: np.ndarray, save_matrix: Save) -> None:
    assert fill(save_matrix(matrix), "IVF12,Flat", 0).nprobe == 8


@pytest.mark.parametrize("factory", ["Flaat", "", "IVF,Flat", "PQ7", "IDMap,Flat", "LSH"])
def test_bad_factory_is_named(matrix: np.ndarray, save_matrix: Save, factory: str) -> None:
    with pytest.raises(UserError, match=f"index.factory is '{factory}'") as error:
        fill(save_matrix(matrix), factory, 0)
    message = str(error.value)
    assert "\n" not in message and ".cpp" not in message


def test_too_few_passages_to_train_on(matrix: np.ndarray, save_matrix: Save) -> None:
    with pytest.raises(UserError, match="index.factory is 'IVF600,Flat': FAISS makes no such index of 500 passages"):
        fill(save_matrix(matrix), "IVF600,Flat", 0)


def test_one_id_a_row(matrix: np.ndarray, save_matrix: Save, save_passages: Passages, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="500 rows, but .*passages.parquet has 499"):
        build(save_matrix(matrix), tmp_path / "index", factory="Flat", pids=save_passages(499), system="s", seed=0)
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize("factory", ["Flat", "IVF4,Flat"])
def test_values_must_be_finite(matrix: np.ndarray, save_matrix: Save, factory: str) -> None:
    matrix[41, 3] = np.nan
    with pytest.raises(UserError, match="row 41 holds NaN"):
        fill(save_matrix(matrix), factory, 0)
