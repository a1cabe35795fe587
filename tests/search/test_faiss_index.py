"""FAISS indexes: their files, factories, what is refused, and search with several views of a passage."""

import json
from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.tables import read_column
from gnn_encoder.search import faiss_index
from gnn_encoder.search.faiss_index import PIDS, PassageIndex, TableRows, build, fill, search_views

from .conftest import VIEWS, whole_numbers

Save = Callable[..., Path]
Passages = Callable[[int], Path]


@pytest.fixture
def matrix() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(500, 16)).astype(np.float32)


@pytest.fixture
def folder(save_matrix: Save, save_passages: Passages, tmp_path: Path) -> Path:
    """150 passages of 3 views."""
    views = save_matrix(whole_numbers(0, 450, 4), "views", views=VIEWS)
    build(views, tmp_path / "index", factory="Flat", pids=save_passages(150), system="mine", seed=0)
    return tmp_path / "index"


def test_files_of_a_flat_index(
    matrix: np.ndarray, save_matrix: Save, save_passages: Passages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faiss_index, "PICKED", 70)
    folder = tmp_path / "index"
    build(save_matrix(matrix), folder, factory="Flat", pids=save_passages(500), system="dual_encoder", seed=0)
    index = faiss.read_index(str(folder / "index.faiss"))
    assert type(index) is faiss.IndexFlatIP
    np.testing.assert_array_equal(index.reconstruct_n(0, 500), matrix)
    assert read_column(folder / PIDS, "pid").to_pylist() == [f"p{i}" for i in range(500)]
    assert pq.ParquetFile(folder / PIDS).metadata.row_group(0).num_rows == 70, "a search decodes one for each hit"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert len(manifest.pop("fingerprint")) == 32
    assert manifest == {"factory": "Flat", "passages": 500, "views": 1, "dimension": 16, "system": "dual_encoder"}
    opened = PassageIndex.open(folder)
    assert (opened.system, opened.factory, opened.passages, opened.dimension) == ("dual_encoder", "Flat", 500, 16)


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


@pytest.mark.parametrize("factory", ["Flaat", "", "IVF,Flat", "PQ7", "IDMap,Flat", "LSH", "IVF600,Flat"])
def test_bad_factory_is_named(matrix: np.ndarray, save_matrix: Save, factory: str) -> None:
    with pytest.raises(UserError, match=f"index.factory is '{factory}'") as error:
        fill(save_matrix(matrix), factory, 0)
    assert "\n" not in str(error.value) and ".cpp" not in str(error.value)


def test_embeddings_that_do_not_fit(
    matrix: np.ndarray, save_matrix: Save, save_passages: Passages, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="500 rows, but .*passages.parquet has 499"):
        build(save_matrix(matrix), tmp_path / "index", factory="Flat", pids=save_passages(499), system="s", seed=0)
    assert not (tmp_path / "index").exists()
    matrix[41, 3] = np.nan
    for factory in ("Flat", "IVF4,Flat"):
        with pytest.raises(UserError, match="row 41 holds NaN"):
            fill(save_matrix(matrix, factory), factory, 0)


def spoil(name: str, **changes: object) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        (folder / name).write_text(json.dumps(json.loads((folder / name).read_text()) | changes))

    return change


def cut(folder: Path) -> None:
    (folder / "index.faiss").write_bytes((folder / "index.faiss").read_bytes()[:2000])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda folder: (folder / "index.faiss").unlink(), "index.faiss: not built yet"),
        (lambda folder: (folder / "pids.parquet").unlink(), "pids.parquet: not built yet"),
        (lambda folder: (folder / "manifest.json").unlink(), "manifest.json: not built yet"),
        (cut, "not a readable FAISS index"),
        (spoil("manifest.json", passages=5), "450 vectors of dimension 4, but"),
        (spoil("manifest.json", dimension=5), "450 vectors"),
        (spoil("manifest.json", x=1), "must hold"),
    ],
)
def test_a_folder_that_is_no_index(folder: Path, change: Callable[[Path], object], told: str) -> None:
    change(folder)
    with pytest.raises(UserError, match=told):
        PassageIndex.open(folder)


def test_queries_that_do_not_fit(folder: Path) -> None:
    index = PassageIndex.open(folder)
    with pytest.raises(UserError, match=r"shape \(1, 6\), the passages' dimension is 4"):
        index.search(np.ones((1, 6), dtype=np.float32), 3)
    with pytest.raises(UserError, match="k is 151: must be from 1 to the number of passages, 150"):
        index.search(np.ones((1, 4), dtype=np.float32), 151)


def test_table_rows_across_row_groups(tmp_path: Path) -> None:
    path, schema = tmp_path / "t.parquet", pa.schema([("pid", pa.string())])
    pq.write_table(pa.table([[f"p{i}" for i in range(10)]], schema=schema), path, row_group_size=3)
    table = TableRows(path, schema)
    assert len(table) == 10
    assert [row["pid"] for row in table.take(np.array([9, 0, 3, 2, 0]))] == ["p9", "p0", "p3", "p2", "p0"]


# --- views ------------------------------------------------------------------------------------------------------------


def flat(matrix: np.ndarray) -> faiss.Index:
    index = faiss.IndexFlatIP(matrix.shape[1])
    index.add(np.ascontiguousarray(matrix, dtype=np.float32))
    return index


@pytest.mark.parametrize("k", [1, 7, 149, 150])
@pytest.mark.parametrize("views", [1, VIEWS])
def test_index_against_brute_force_with_ties(folder: Path, views: int, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each passage once, its own best score, the k best scores, the lower row first among equals."""
    matrix, queries = whole_numbers(0, 450, 4), whole_numbers(1, 30, 4)
    index = PassageIndex.open(folder)
    assert (index.passages, index.views, index.index.ntotal, index.dimension) == (150, 3, 450, 4)
    monkeypatch.setattr(faiss_index, "MERGE_ENTRIES", k * views * 7)  # seven queries at a time
    rows, scores = index.search(queries, k) if views > 1 else search_views(index.index, 1, queries, k)
    of_views = np.einsum("qd,pvd->qpv", queries.astype(np.float64), matrix.reshape(-1, views, 4)).max(axis=2)
    np.testing.assert_array_equal(scores, -np.sort(-of_views, axis=1)[:, :k])
    np.testing.assert_array_equal(np.take_along_axis(of_views, rows, axis=1), scores)
    assert all(len(set(row)) == k and min(row) >= 0 for row in rows.tolist())
    assert (np.diff(rows, axis=1)[np.diff(scores, axis=1) == 0] > 0).all()


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


def test_an_approximate_index_that_finds_fewer(save_matrix: Save) -> None:
    index = fill(save_matrix(whole_numbers(0, 450, 4), views=VIEWS), "IVF30,Flat", 0)
    passages, scores = search_views(index, VIEWS, whole_numbers(1, 30, 4), 140)
    missing = passages < 0
    assert missing.any() and not missing[:, 0].any()
    assert (np.diff(missing.astype(int), axis=1) >= 0).all()  # at the end
    assert (scores[missing] == np.finfo(np.float32).min).all()
    for row in passages.tolist():
        present = [passage for passage in row if passage >= 0]
        assert len(set(present)) == len(present)
