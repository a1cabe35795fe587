"""Matrices on disk: blocks in any order, what is done after a kill, and what a spoilt file is told."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import seal
from gnn_encoder.base.matrix import ArrayManifest, ArrayWriter, array_blocks, gather_rows, is_finished, open_matrix

MATRIX = np.arange(21, dtype=np.float32).reshape(7, 3)
MADE = ArrayManifest(shape=(7, 3), dtype="float32", model_fingerprint="m", input_fingerprint="i", fingerprint="mi")


def write_whole(folder: Path, matrix: np.ndarray = MATRIX, dtype: str = "float32") -> Path:
    writer = ArrayWriter(folder, matrix.shape, dtype)
    writer.write(0, matrix)
    writer.finish(replace(MADE, dtype=dtype))
    return folder


def test_blocks_in_any_order_by_several_processes_and_what_is_done(tmp_path: Path) -> None:
    first, second = (ArrayWriter(tmp_path, (7, 3), "float32") for _ in range(2))
    first.write(4, MATRIX[4:])
    second.write(0, MATRIX[:2])
    later = ArrayWriter(tmp_path, (7, 3), "float32")
    assert later.done == {0, 4} and not is_finished(tmp_path, MADE)
    with pytest.raises(UserError, match=r"manifest.json: not built yet"):
        open_matrix(tmp_path)
    later.write(2, MATRIX[2:4])
    later.finish(MADE)
    np.testing.assert_array_equal(open_matrix(tmp_path), MATRIX)
    (tmp_path / "done").write_bytes(b"\1")  # as a kill within `finish` leaves it
    assert not is_finished(tmp_path, replace(MADE, fingerprint="other"))
    assert is_finished(tmp_path, MADE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["embeddings.npy", "manifest.json"]


def test_flags_of_a_matrix_that_is_gone_do_not_count(tmp_path: Path) -> None:
    ArrayWriter(tmp_path, (7, 3), "float32").write(0, MATRIX)
    (tmp_path / "embeddings.npy").unlink()
    assert ArrayWriter(tmp_path, (7, 3), "float32").done == set()


@pytest.mark.parametrize("size", [0, 1, 128, 128 + 83, None])
def test_a_file_that_is_cut_short_or_lost(tmp_path: Path, size: int | None) -> None:
    path = write_whole(tmp_path) / "embeddings.npy"
    seal(tmp_path)
    path.unlink() if size is None else os.truncate(path, size)
    with pytest.raises(UserError, match=f"^{tmp_path}: damaged: .* make it again: `dvc repro`$"):
        open_matrix(tmp_path)


def test_blocks_and_picked_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = open_matrix(write_whole(tmp_path, dtype="float16"))
    blocks = list(array_blocks(matrix, rows=3))
    assert [(first, len(block)) for first, block in blocks] == [(0, 3), (3, 3), (6, 1)]
    assert all(block.dtype == np.float32 for _, block in blocks)
    np.testing.assert_array_equal(np.concatenate([block for _, block in blocks]), MATRIX)
    monkeypatch.setattr("gnn_encoder.base.matrix.GATHER_ROWS", 2)
    rows = np.array([[6, 0, 3], [3, 1, 5]])
    np.testing.assert_array_equal(gather_rows(matrix, rows), MATRIX[rows])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_is_named(tmp_path: Path, value: float) -> None:
    spoilt = MATRIX.copy()
    spoilt[5, 1] = value
    blocks = array_blocks(open_matrix(write_whole(tmp_path, spoilt)), rows=2)
    assert [next(blocks)[0], next(blocks)[0]] == [0, 2]
    with pytest.raises(UserError, match=r"embeddings.npy: row 5 holds NaN or an infinite value; .*lower learning rate"):
        next(blocks)
