"""Matrices on disk: blocks in any order, journals over a kill, and what a spoilt file is told."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gnn_encoder.base import distributed
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.matrix import (
    ArrayManifest,
    ArrayWriter,
    array_blocks,
    gather,
    is_finished,
    open_matrix,
    read_manifest,
)

MATRIX = np.arange(21, dtype=np.float32).reshape(7, 3)


def manifest(rows: int = 7, dtype: str = "float32") -> ArrayManifest:
    return ArrayManifest(shape=(rows, 3), dtype=dtype, model_fingerprint="m", input_fingerprint="i", fingerprint="mi")


def write_whole(folder: Path, matrix: np.ndarray = MATRIX, dtype: str = "float32") -> Path:
    writer = ArrayWriter(folder, matrix.shape, dtype)
    with writer:
        writer.write(0, matrix)
    writer.finish(manifest(len(matrix), dtype))
    return folder


def test_blocks_in_any_order(tmp_path: Path) -> None:
    writer = ArrayWriter(tmp_path, (7, 3), "float32")
    with writer:
        for first, last in ((4, 7), (0, 2), (2, 4)):
            writer.write(first, MATRIX[first:last])
    writer.finish(manifest())
    np.testing.assert_array_equal(open_matrix(tmp_path), MATRIX)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["embeddings.npy", "manifest.json"]


def test_a_later_writer_knows_what_is_done(tmp_path: Path) -> None:
    with ArrayWriter(tmp_path, (7, 3), "float32") as first:
        first.write(4, MATRIX[4:])
    second = ArrayWriter(tmp_path, (7, 3), "float32")
    assert second.done == {4}
    with second:
        second.write(0, MATRIX[:4])
    assert second.done == {0, 4}
    second.finish(manifest())
    np.testing.assert_array_equal(open_matrix(tmp_path), MATRIX)


def test_a_finished_matrix_is_known_and_its_journals_go(tmp_path: Path) -> None:
    assert not is_finished(tmp_path, manifest())
    with ArrayWriter(tmp_path, (7, 3), "float32") as writer:
        writer.write(0, MATRIX)
    journal = (tmp_path / "done-0.txt").read_text()
    assert not is_finished(tmp_path, manifest())
    writer.finish(manifest())
    (tmp_path / "done-0.txt").write_text(journal)  # as a kill within `finish` leaves it
    assert not is_finished(tmp_path, replace(manifest(), fingerprint="other"))
    assert is_finished(tmp_path, manifest())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["embeddings.npy", "manifest.json"]


def test_each_process_reads_every_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank, first in enumerate((0, 4, 2)):
        monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
        with ArrayWriter(tmp_path, (7, 3), "float32") as writer:
            writer.write(first, MATRIX[first : first + 2])
    assert ArrayWriter(tmp_path, (7, 3), "float32").done == {0, 2, 4}
    np.testing.assert_array_equal(np.load(tmp_path / "embeddings.npy")[:6], MATRIX[:6])
    assert {path.name for path in tmp_path.glob("done-*")} == {f"done-{rank}.txt" for rank in range(3)}


def test_half_written_journal_line_is_no_block_and_spoils_no_later_one(tmp_path: Path) -> None:
    with ArrayWriter(tmp_path, (7, 3), "float32") as first:
        first.write(0, MATRIX[:2])
    with (tmp_path / "done-0.txt").open("a") as journal:
        journal.write("1")  # of "12": the kill came before the rest
    second = ArrayWriter(tmp_path, (7, 3), "float32")
    assert second.done == {0}
    with second:
        second.write(2, MATRIX[2:4])
    assert ArrayWriter(tmp_path, (7, 3), "float32").done == {0, 2}


def test_a_matrix_without_manifest_is_not_read(tmp_path: Path) -> None:
    with ArrayWriter(tmp_path, (7, 3), "float32") as writer:
        writer.write(0, MATRIX)
    with pytest.raises(UserError, match=r"holds no embeddings.npy with manifest.json; run the stage") as caught:
        open_matrix(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [0, 1, 128, 128 + 83])
def test_a_file_shorter_than_its_manifest(tmp_path: Path, size: int) -> None:
    path = write_whole(tmp_path) / "embeddings.npy"
    with path.open("r+b") as file:
        file.truncate(size)
    with pytest.raises(UserError) as caught:
        read_manifest(tmp_path)
    assert str(caught.value) == (
        f"{path}: {size} bytes do not hold the (7, 3) float32 matrix of 84 bytes that {tmp_path / 'manifest.json'} "
        "promises; delete the folder and run its stage again"
    )


@pytest.mark.parametrize("change", [{"shape": [8, 3]}, {"shape": [7, 4]}, {"dtype": "float16"}, {"complete": False}])
def test_a_manifest_that_promises_something_else(tmp_path: Path, change: dict[str, object]) -> None:
    path = write_whole(tmp_path) / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(UserError, match="do not hold"):
        open_matrix(tmp_path)


def test_blocks_cover_the_matrix_in_float32(tmp_path: Path) -> None:
    write_whole(tmp_path, dtype="float16")
    blocks = list(array_blocks(open_matrix(tmp_path), rows=3))
    assert [(first, len(block)) for first, block in blocks] == [(0, 3), (3, 3), (6, 1)]
    assert all(block.dtype == np.float32 for _, block in blocks)
    np.testing.assert_array_equal(np.concatenate([block for _, block in blocks]), MATRIX)


def test_rows_are_gathered_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnn_encoder.base.matrix.GATHER_ROWS", 2)
    rows = np.array([[6, 0, 3], [3, 1, 5]])
    np.testing.assert_array_equal(gather(open_matrix(write_whole(tmp_path)), rows), MATRIX[rows])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_is_named(tmp_path: Path, value: float) -> None:
    spoilt = MATRIX.copy()
    spoilt[5, 1] = value
    write_whole(tmp_path, spoilt)
    blocks = array_blocks(open_matrix(tmp_path), rows=2)
    assert [next(blocks)[0], next(blocks)[0]] == [0, 2]
    with pytest.raises(UserError, match=r"embeddings.npy: row 5 holds NaN or an infinite value; .*lower learning rate"):
        next(blocks)
