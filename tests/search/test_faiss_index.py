"""FAISS indexes: their files, factories, what is refused, and search with several views of a passage."""

import json
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.search import faiss_index
from gnn_encoder.search.faiss_index import PID_TABLE, PIDS, PassageIndex, TableRows, build, fill, search_views

from ..texts import whole_numbers, write_matrix, write_passages

MATRIX = np.random.default_rng(0).normal(size=(500, 16)).astype(np.float32)
VIEWS = 3


def of(folder: Path, passages: int) -> dict[str, Any]:
    """What `build` needs to know of so many passages."""
    pids = write_passages(folder / "passages.parquet", [""] * passages, ["text"] * passages)
    return {"pids": pids, "system": "mine", "encoder": folder, "seed": 7}


def test_files_of_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faiss_index, "PICKED", 70)
    matrix, made = write_matrix(tmp_path / "matrix", MATRIX), of(tmp_path, 500)
    for name, factory in (("flat", "Flat"), ("one", "IVF4,Flat"), ("two", "IVF4,Flat")):
        build(matrix, tmp_path / name, factory=factory, **made)
    for file in ("index.faiss", "pids.parquet", "manifest.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    index = faiss.read_index(str(tmp_path / "flat" / "index.faiss"))
    assert type(index) is faiss.IndexFlatIP
    np.testing.assert_array_equal(index.reconstruct_n(0, 500), MATRIX)
    ids, rows = TableRows(tmp_path / "flat" / PIDS, PID_TABLE), np.array([499, 0, 3, 70, 69, 0])
    assert len(ids) == 500 and ids.take(rows) == [{"pid": f"{row}"} for row in rows]
    assert ids._file.metadata.row_group(0).num_rows == 70, "one is decoded for each hit"
    manifest = json.loads((tmp_path / "flat" / "manifest.json").read_text())
    assert len(manifest.pop("fingerprint")) == len(manifest.pop("asked_by")) == 32
    assert manifest == {"factory": "Flat", "passages": 500, "views": 1, "dimension": 16}


BAD = ["Flaat", "", "IVF,Flat", "PQ7", "IDMap,Flat", "LSH", "IVF600,Flat", "HNSW1", "HNSW16_PQ8", "NSG0,Flat"]
BAD += ["PQ4x0", "OPQ4_0,Flat", "RQ0x8"]
CHANGING = ["PCA16,Flat", "PCAR8,IVF4,SQ8", "ITQ16,Flat", "L2norm,Flat", "OPQ4_16,L2norm,Flat", "RR8,Flat"]


@pytest.mark.parametrize("factory", BAD + CHANGING)
def test_bad_factory_is_named(tmp_path: Path, factory: str) -> None:
    told = "its .* changes inner products" if factory in CHANGING else ""
    with pytest.raises(UserError, match=f"index.factory is '{factory}': {told}") as error:
        fill(write_matrix(tmp_path, MATRIX + 1), factory, 0)
    assert "\n" not in str(error.value) and ".cpp" not in str(error.value)


FINDING = {"HNSW16": 0.9, "IVF12,Flat": 0.9, "RR16,IVF12,Flat": 0.9, "SQ8": 0.9, "PCA8,SQ8,RFlat": 0.1}
KEEPING = ["OPQ4,Flat", "RR16,Flat", "HR16,Flat", "Pad32,Flat", "PCA8,SQ8,RFlat"]


@pytest.mark.parametrize("factory", dict.fromkeys([*FINDING, *KEEPING]))
def test_factories_find_most_of_the_best_and_keep_inner_products(tmp_path: Path, factory: str) -> None:
    matrix, queries = 3 * MATRIX + 1, MATRIX[:50]
    index, exact = fill(write_matrix(tmp_path, matrix), factory, 0), queries @ matrix.T
    scores, rows = index.search(queries, 10)
    best = np.argsort(-exact, axis=1)[:, :10]
    overlap = np.mean([len(set(found) & set(right)) / 10 for found, right in zip(rows, best, strict=True)])
    assert overlap > FINDING.get(factory, 0.99) and (np.diff(scores, axis=1) <= 0).all()
    assert "IVF" not in factory or faiss.extract_index_ivf(index).nprobe == 8
    if factory in KEEPING:
        np.testing.assert_allclose(scores, np.take_along_axis(exact, rows, axis=1), rtol=1e-3, atol=1e-3)


def test_embeddings_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="500 rows, but .*passages.parquet has 499"):
        build(write_matrix(tmp_path / "matrix", MATRIX), tmp_path / "index", factory="Flat", **of(tmp_path, 499))
    assert not (tmp_path / "index").exists()
    wrong = MATRIX.copy()
    wrong[41, 3] = np.nan
    for factory in ("Flat", "IVF4,Flat"):
        with pytest.raises(UserError, match="row 41 holds NaN"):
            fill(write_matrix(tmp_path / factory, wrong), factory, 0)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        *((name, None, f"{name}: not built yet") for name in ("index.faiss", "pids.parquet", "manifest.json")),
        ("index.faiss", b"IxF2 cut", "not a readable FAISS index"),
        ("manifest.json", {"passages": 5}, "450 vectors of dimension 4, but"),
        ("manifest.json", {"dimension": 5}, "450 vectors"),
        ("manifest.json", {"passages": None}, "passages: Input should be a valid integer"),
    ],
)
def test_a_folder_that_is_no_index(tmp_path: Path, name: str, content: Any, told: str) -> None:
    views, path = write_matrix(tmp_path / "views", whole_numbers(0, 450, 4), views=VIEWS), tmp_path / "index" / name
    build(views, path.parent, factory="Flat", **of(tmp_path, 150))
    with pytest.raises(UserError, match="k is 151: must be from 1 to the number of passages, 150"):
        PassageIndex.open(path.parent).search(whole_numbers(1, 30, 4), 151)
    if isinstance(content, dict):
        content = json.dumps(json.loads(path.read_text()) | content).encode()
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=told):
        PassageIndex.open(path.parent)


@pytest.mark.parametrize(("views", "k"), [(1, 1), (1, 450), (VIEWS, 7), (VIEWS, 149), (VIEWS, 150), (45, 1), (45, 9)])
def test_search_against_brute_force_with_ties(views: int, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each passage once, its own best score, the k best scores, the lower row first among equals."""
    matrix, queries, index = whole_numbers(0, 450, 4), whole_numbers(1, 30, 4), faiss.IndexFlatIP(4)
    matrix[:45] *= 9  # those of the first passage of 45 fill the first ranks
    index.add(matrix)
    monkeypatch.setattr(faiss_index, "MERGE_ENTRIES", k * views * 7)  # seven queries at a time
    rows, scores = search_views(index, views, queries, k)
    of_views = np.einsum("qd,pvd->qpv", queries.astype(np.float64), matrix.reshape(-1, views, 4)).max(axis=2)
    np.testing.assert_array_equal(scores, -np.sort(-of_views, axis=1)[:, :k])
    np.testing.assert_array_equal(np.take_along_axis(of_views, rows, axis=1), scores)
    assert all(len(set(row)) == k and min(row) >= 0 for row in rows.tolist())
    assert (np.diff(rows, axis=1)[np.diff(scores, axis=1) == 0] > 0).all()


def test_an_approximate_index_that_finds_fewer(tmp_path: Path) -> None:
    index = fill(write_matrix(tmp_path, whole_numbers(0, 450, 4), views=VIEWS), "IVF30,Flat", 0)
    passages, scores = search_views(index, VIEWS, whole_numbers(1, 30, 4), 140)
    missing = passages < 0
    assert missing.any() and not missing[:, 0].any()
    assert (np.diff(missing.astype(int), axis=1) >= 0).all()  # at the end
    assert (scores[missing] == np.finfo(np.float32).min).all()
    assert all(len(set(row) - {-1}) == sum(one >= 0 for one in row) for row in passages.tolist())
