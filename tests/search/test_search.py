import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.tables import read_column
from gnn_encoder.search.faiss_index import PIDS, PassageIndex, TableRows, build

Save = Callable[..., Path]


@pytest.fixture
def matrix() -> np.ndarray:
    return np.random.default_rng(0).integers(-2, 3, size=(300, 4)).astype(np.float32)


@pytest.fixture
def queries() -> np.ndarray:
    return np.random.default_rng(1).integers(-2, 3, size=(25, 4)).astype(np.float32)


@pytest.fixture
def folder(matrix: np.ndarray, save_matrix: Save, save_passages: Callable[[int], Path], tmp_path: Path) -> Path:
    build(save_matrix(matrix), tmp_path / "index", factory="Flat", pids=save_passages(300), system="mine", seed=0)
    return tmp_path / "index"


def test_scores_equal_a_full_sort(folder: Path, matrix: np.ndarray, queries: np.ndarray) -> None:
    index = PassageIndex.open(folder)
    rows, scores = index.search(queries, 7)
    np.testing.assert_array_equal(scores, -np.sort(-(queries @ matrix.T), axis=1)[:, :7])
    np.testing.assert_array_equal(np.einsum("qd,qkd->qk", queries, matrix[rows]), scores)
    assert (index.system, index.factory, index.passages, index.dimension) == ("mine", "Flat", 300, 4)
    assert read_column(folder / PIDS, "pid").to_pylist() == [f"p{i}" for i in range(300)]


def test_dimensions_must_agree(folder: Path) -> None:
    with pytest.raises(UserError, match=r"shape \(1, 6\), the passages' dimension is 4"):
        PassageIndex.open(folder).search(np.ones((1, 6), dtype=np.float32), 3)


@pytest.mark.parametrize("name", ["index.faiss", "pids.parquet", "manifest.json"])
def test_missing_file(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(UserError, match=f"{name}: not built yet"):
        PassageIndex.open(folder)


def test_truncated_index(folder: Path) -> None:
    (folder / "index.faiss").write_bytes((folder / "index.faiss").read_bytes()[:2000])
    with pytest.raises(UserError, match="not a readable FAISS index"):
        PassageIndex.open(folder)


@pytest.mark.parametrize(
    ("change", "told"),
    [({"passages": 5}, "300 vectors of dimension 4, but"), ({"dimension": 5}, "300 vectors"), ({"x": 1}, "must hold")],
)
def test_index_of_another_manifest(folder: Path, change: dict[str, int], told: str) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | change))
    with pytest.raises(UserError, match=told):
        PassageIndex.open(folder)


def test_table_rows_across_row_groups(tmp_path: Path) -> None:
    path, schema = tmp_path / "t.parquet", pa.schema([("pid", pa.string())])
    pq.write_table(pa.table([[f"p{i}" for i in range(10)]], schema=schema), path, row_group_size=3)
    table = TableRows(path, schema)
    assert len(table) == 10
    assert [row["pid"] for row in table.take(np.array([9, 0, 3, 2, 0]))] == ["p9", "p0", "p3", "p2", "p0"]


def test_ids_lie_in_small_row_groups(
    save_matrix: Save, save_passages: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For each hit a search decodes a whole row group."""
    monkeypatch.setattr("gnn_encoder.search.faiss_index.PICKED", 7)
    matrix = save_matrix(np.ones((30, 4), dtype=np.float32))
    build(matrix, tmp_path / "index", factory="Flat", pids=save_passages(30), system="mine", seed=0)
    assert pq.ParquetFile(tmp_path / "index" / PIDS).metadata.row_group(0).num_rows == 7
