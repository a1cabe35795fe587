"""Arrays that many functions take and return, matrices on disk, and work that is done window by window."""

import math
import mmap
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from gnn_encoder.base import distributed
from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import MANIFEST, check_room, check_undamaged, publish, read_json, write_json

Rows = NDArray[np.integer[Any]]  # rows of a table or a matrix, or places in a list, of any integer type; -1: none
Scores = NDArray[np.float32]
Mask = NDArray[np.bool_]
Matrix = NDArray[np.float32]  # vectors, one a row


def spans(first: Rows, count: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places first[i] .. first[i] + count[i] - 1 of run after run, and the number i of the run of each.

    *Shape:* (n,) both -> (sum of count,) both.
    """
    run = np.repeat(np.arange(len(count)), count)
    return np.arange(len(run)) + np.repeat(first - (np.cumsum(count) - count), count), run


def of_length_1(vectors: Matrix) -> Matrix:
    """Vectors divided by their length; one of hardly any length becomes 0. *Shape:* (n, d) -> (n, d)."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    result: Matrix = np.divide(vectors, length, out=np.zeros_like(vectors, dtype=np.float32), where=length > 1e-12)
    return result


MATRIX, DONE = "embeddings.npy", "done"
READ_BYTES = 64 * 2**20  # memory of one block when a matrix is streamed
READ_ROWS = 65_536  # most rows of such a block: arrays that are computed from it grow with its rows
CURE = ": train with a lower learning rate or in float32, then make them again"
GATHER_ROWS = 256  # rows that stay mapped at a time when they are picked one by one
PAIRS_AT_A_TIME = 8_192  # whose embeddings are in memory together


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What a matrix was made from: fingerprints of a model and of all that it read."""

    model_fingerprint: str
    input_fingerprint: str


@dataclass(frozen=True, kw_only=True)
class ArrayManifest(Origin):
    """What a matrix on disk is and what it was made from. The manifest is written last, when the matrix is complete."""

    shape: tuple[int, int]
    dtype: str
    fingerprint: str
    views: int = 1  # rows a passage: row r is view r % views of passage r // views


class ArrayWriter:
    """Writes the rows of one matrix in blocks, in any order, and knows after a kill which blocks are done.

    *Shape:* (rows, columns). In a file beside it byte r is 1 when the block from row r on is on the disk.
    """

    def __init__(self, folder: Path, shape: tuple[int, int], dtype: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._matrix, self._flags, self._dtype = folder, folder / MATRIX, folder / DONE, np.dtype(dtype)
        self._row, self._bytes = (math.prod(some) * self._dtype.itemsize for some in (shape[1:], shape))
        if distributed.is_first():
            if not self._matrix.exists():
                check_room(folder, self._bytes, "set cache_passages.dtype to float16 if it is float32")
                partial = folder / f".{MATRIX}"
                npy_format.open_memmap(partial, mode="w+", dtype=self._dtype, shape=shape).flush()
                self._flags.unlink(missing_ok=True)  # of a matrix that is gone
                publish(partial, self._matrix)
            self._flags.touch()
        flags = np.fromfile(self._flags, dtype=np.uint8) if self._flags.exists() else np.empty(0)
        self.done = set(np.flatnonzero(flags).tolist())

    def write(self, first_row: int, rows: NDArray[Any]) -> None:
        """Store `rows` from row `first_row` on and note the block as done."""
        with self._matrix.open("r+b") as file:
            file.seek(first_row * self._row - self._bytes, os.SEEK_END)
            file.write(np.ascontiguousarray(rows, dtype=self._dtype).data)
            file.flush()
            os.fsync(file.fileno())  # or the machine's end could keep the flag and lose the rows
        with self._flags.open("r+b") as file:
            file.seek(first_row)
            file.write(b"\1")

    def finish(self, manifest: ArrayManifest) -> None:
        """Write the manifest, which marks the matrix as complete, and delete the flags."""
        write_json(self._folder / MANIFEST, manifest)
        self._flags.unlink()


def is_finished(folder: Path, manifest: ArrayManifest) -> bool:
    """Whether an interrupted run finished this very matrix, and was killed later; of its flags none stays."""
    if not (folder / MANIFEST).is_file() or read_manifest(folder) != manifest:
        return False
    (folder / DONE).unlink(missing_ok=True)
    return True


def read_manifest(folder: Path) -> ArrayManifest:
    """The manifest of a matrix folder, which must hold what was written."""
    manifest = read_json(folder / MANIFEST, ArrayManifest)
    check_undamaged(folder)
    return manifest


def check_shape(folder: Path, expected: tuple[int, int]) -> None:
    """Refuse a matrix of other passages, or of another model, than those it is used with."""
    shape = read_manifest(folder).shape
    if shape != expected:
        raise UserError(
            f"{folder}: {shape[0]} embeddings of dimension {shape[1]}, expected {expected[0]} of {expected[1]}, one a "
            "passage by the present model; delete the folder and run its stage again"
        )


def write_header(file: BinaryIO, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Begin a `.npy` file whose rows are then written as bytes.

    The file is not mapped: on a full disk a write through a mapping ends in a SIGBUS instead of an error.
    """
    npy_format.write_array_header_2_0(file, {"descr": dtype.str, "fortran_order": False, "shape": shape})


def open_matrix(folder: Path) -> NDArray[Any]:
    """Map a complete matrix for reading. *Shape:* as its manifest says."""
    read_manifest(folder)
    matrix: NDArray[Any] = np.load(folder / MATRIX, mmap_mode="r")
    return matrix


def release(*arrays: NDArray[Any]) -> None:
    """Give back the memory of mapped arrays; their pages stay in the system's cache and return when they are read."""
    for array in arrays:
        mapping = getattr(array, "_mmap", None)  # None: an array in memory
        if mapping is not None and getattr(array, "mode", "r") != "c":  # what was changed in a copy is nowhere else
            mapping.madvise(mmap.MADV_DONTNEED)


def gather_rows(matrix: NDArray[Any], rows: Rows) -> NDArray[Any]:
    """Copy rows of a mapped matrix, reading them in the file's order, with only a few of its pages in memory at a time.

    The system maps many pages around each page that is read: a plain `matrix[rows]` leaves nearly all in memory.

    *Shape:* (m, d), any -> (*rows.shape, d).
    """
    wanted, inverse = np.unique(rows, return_inverse=True)
    found = np.empty((len(wanted), matrix.shape[1]), dtype=matrix.dtype)
    for first in range(0, len(wanted), GATHER_ROWS):
        part = slice(first, first + GATHER_ROWS)
        found[part] = matrix[wanted[part]]
        release(matrix)
    result: NDArray[Any] = found[inverse.reshape(rows.shape)]
    return result


def pair_scores(queries: Matrix, asking: Rows, passages: NDArray[Any], asked: Rows) -> Scores:
    """Dot products of `queries[asking]` and `passages[asked]`. *Shape:* (n, d), (p,), (m, d), (p,) -> (p,)."""
    found = np.empty(len(asked), dtype=np.float32)
    for first in range(0, len(asked), PAIRS_AT_A_TIME):
        part = slice(first, first + PAIRS_AT_A_TIME)
        passage = gather_rows(passages, asked[part]).astype(np.float32)
        found[part] = np.einsum("nd,nd->n", queries[asking[part]], passage)
    return found


def array_blocks(matrix: NDArray[Any], rows: int | None = None, *, name: str = "") -> Iterator[tuple[int, Matrix]]:
    """Yield (first row, block as float32) over a matrix, which errors call `name`, by default its file."""
    rows = rows or min(READ_ROWS, max(1, READ_BYTES // (matrix.shape[1] * 4)))
    for first in range(0, len(matrix), rows):
        yield first, read_block(matrix, first, rows, name=name)


def read_block(matrix: NDArray[Any], first: int, rows: int, *, name: str = "") -> Matrix:
    """Rows of a matrix from row `first` on, as float32; of a mapped one they do not stay mapped."""
    block = np.array(matrix[first : first + rows], dtype=np.float32, order="C")  # a copy, which may be changed
    release(matrix)
    called = name or getattr(matrix, "filename", None) or "embeddings"
    check_finite(block, called, first, "" if name else CURE)
    return block


def check_finite(block: NDArray[np.floating[Any]], name: object, rows: int | Rows = 0, cure: str = CURE) -> None:
    """Refuse vectors with NaN or an infinite value; `rows`: the number of the first, or of each. *Shape:* (n, d)."""
    finite = np.isfinite(block).all(axis=1)
    if not finite.all():
        at = int(np.argmin(finite))
        row = rows + at if isinstance(rows, int) else rows[at]
        raise UserError(f"{name}: row {row} holds NaN or an infinite value; embeddings must be finite{cure}")


Numbers = Iterator[int]  # of windows
Work = Callable[[Numbers], Iterator[tuple[int, Any]]]


def resume_windows(
    folder: Path, name: str, rows: int, window: int, work: Work, write: Callable[[Path, int, Any], None], **bar: str
) -> list[Path]:
    """Compute the windows whose files do not exist yet, shared by all devices. Returns the files of all.

    What `work` yields with a window's number, `write` puts into its file, `name` such as `part-{:06d}.parquet`, which
    exists only when it is complete. All windows together have `rows` rows, and each has `window`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / name.format(number) for number in range(-(-rows // window))]
    waiting = [number for number, file in enumerate(files) if not file.exists()]
    for number, result in in_turn(work, waiting, rows, window, **bar):
        unfinished = folder / f".{files[number].name}"
        write(unfinished, number, result)
        publish(unfinished, files[number])
    return files


def in_turn(
    work: Work, waiting: list[int], rows: int, window: int, *, label: str, unit: str
) -> Iterator[tuple[int, Any]]:
    """Yield (window, result) of those waiting windows that this process gets; at the end all are done."""
    distributed.barrier()  # every rank must have listed what waits before any rank finishes some of it
    sizes = {number: min(window, rows - number * window) for number in waiting}
    with tqdm(total=rows, initial=rows - sum(sizes.values()), desc=label, unit=f" {unit}") as bar:
        for number, result in work(iter(waiting[distributed.rank() :: distributed.world_size()])):
            yield number, result
            bar.update(min(sizes[number] * distributed.world_size(), rows - bar.n))
    distributed.barrier()
