"""Vectors and labels as anybody has them, in arrays or in files, checked, in the form that graph and training read."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tokenize import TokenError
from typing import Any, Self

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import publish
from gnn_encoder.base.matrix import Matrix, Rows, array_blocks
from gnn_encoder.base.tables import undamaged
from gnn_encoder.data.reading import read_judged
from gnn_encoder.evaluate.judge import read_qrels
from gnn_encoder.gnn.masking import fold_count

UNIT = (0.99, 1.01)  # lengths; float16 rounds by less
LENGTHS = {  # by similarity. Scores grow with the square of the length, and float32 has 7 digits
    "cosine": (UNIT, "with similarity 'cosine' it must be 1: divide each row by its length, or take similarity 'dot'"),
    "dot": ((0, 10_000), "it must be at most 10,000: divide all vectors, passages and queries, by the same number"),
}
PAIR = {"query": pl.Int32, "passage": pl.Int32}
NAMES = ("passages", "queries", "relevant", "dev queries", "dev relevant", "unlabelled")
ROWS_AT_A_TIME = 8_192
COLUMNS = "columns `id` and `vector`, a list of numbers of the same length in each row"


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """What `GNNEncoder.fit` is given, checked."""

    passages: NDArray[Any]  # (m, d), as they came
    nodes: Matrix  # (n + u, d): training queries, then those without labels
    training: int  # how many are training queries, n
    dev_queries: Matrix  # (q, d)
    pairs: pl.DataFrame  # what is relevant for training queries, columns query, passage
    dev_pairs: pl.DataFrame
    named: str  # what errors call the labels of training queries

    @classmethod
    def check(
        cls,
        passages: Any,
        queries: Any,
        relevant: Any,
        dev: Any,
        unlabelled: Any | None,
        *,
        similarity: str,
        names: Iterable[object] = NAMES,
    ) -> Self:
        """Check the arguments of `fit`, which errors call by these `names`."""
        dev_vectors, dev_relevant = dev
        of_passages, of_queries, of_relevant, of_dev, of_dev_relevant, of_unlabelled = map(str, names)
        passages = check_vectors(of_passages, passages, similarity=similarity)
        m, d = passages.shape
        others = [(of_queries, queries), (of_dev, dev_vectors)]
        others += [] if unlabelled is None else [(of_unlabelled, unlabelled)]
        checked = (check_vectors(*one, columns=d, similarity=similarity) for one in others)
        training, dev_queries, *rest = (np.asarray(vectors, dtype=np.float32) for vectors in checked)
        return cls(
            passages=passages,
            nodes=np.concatenate([training, *rest]),
            training=len(training),
            dev_queries=dev_queries,
            pairs=labelled_pairs(of_relevant, relevant, len(training), m),
            dev_pairs=labelled_pairs(of_dev_relevant, dev_relevant, len(dev_queries), m),
            named=of_relevant,
        )

    def check_sizes(self, k: int, beta: float) -> None:
        """Refuse fewer passages than a query is linked to, or fewer labelled queries than folds."""
        if not 1 <= k <= (m := len(self.passages)):
            raise UserError(f"k is {k}: must be from 1 to the number of passages, {m}")
        if (n := self.pairs["query"].n_unique()) < (least := fold_count(beta)):
            rule = f"must be at least {least} (1 / beta, {beta}): label more"
            raise UserError(f"{self.named}: labels {n} queries; {rule}")


def check_vectors(name: str, vectors: Any, *, columns: int | None = None, similarity: str) -> NDArray[Any]:
    """Vectors, called `name` in errors, as finite floats of a length that fits. *Shape:* (n, d)."""
    matrix: NDArray[Any] = np.asanyarray(vectors)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise UserError(f"{name}: shape {matrix.shape}; must be (rows, columns), neither of them 0")
    check_type(name, matrix.dtype)
    if columns is not None and matrix.shape[1] != columns:
        raise UserError(f"{name}: {matrix.shape[1]} columns, the passages have {columns}: take one encoder for all")
    bounds, rule = LENGTHS[similarity]
    if odd := not_of_length(matrix, *bounds, name=name):
        raise UserError(f"{odd}; {rule}")
    return matrix


def check_type(name: str, dtype: np.dtype[Any]) -> None:
    """Refuse what torch and FAISS do not take."""
    if dtype not in map(np.dtype, (np.float16, np.float32, np.float64)):
        raise UserError(f"{name}: type {dtype}; must be float16, float32 or float64, in this machine's byte order")


def not_of_length(matrix: NDArray[Any], least: float, most: float, *, name: str) -> str | None:
    """What is told of the first row whose length is not allowed; None where there is none. *Shape:* (n, d)."""
    for first, block in array_blocks(matrix, name=name):
        with np.errstate(over="ignore"):
            lengths = np.linalg.norm(block, axis=1)  # infinite where float32 cannot hold it
        wrong = np.flatnonzero((lengths < least) | (lengths > most))
        if len(wrong):
            return f"{name}: row {first + wrong[0]} has length {lengths[wrong[0]]:.3g}"
    return None


def labelled_pairs(name: str, relevant: Any, n_queries: int, n_passages: int) -> pl.DataFrame:
    """Relevant pairs, called `name` in errors, as columns query, passage, sorted, each pair once."""
    rows, shape = np.asarray(relevant), (n_queries, n_passages)
    if rows.size and not (rows.ndim == 2 and rows.shape[1] == 2 and np.issubdtype(rows.dtype, np.integer)):
        rule = "must be whole numbers, the row of a query and that of a passage, of shape (pairs, 2)"
        raise UserError(f"{name}: shape {rows.shape} of {rows.dtype}; {rule}")
    if not rows.size:
        raise UserError(f"{name}: no pair; at least one query must have a relevant passage")
    outside = np.argwhere((rows < 0) | (rows >= shape))
    if len(outside):
        at, side = outside[0]
        what = f"{('query', 'passage')[side]} {rows[at, side]}"
        raise UserError(f"{name}: pair {at} has {what}; must be a row from 0 to {shape[side] - 1}")
    found = pl.DataFrame({"query": rows[:, 0], "passage": rows[:, 1]}, schema_overrides=PAIR)
    return found.unique().sort("query", "passage")


def check_rows(rows: Any | None, n: int, m: int) -> Rows:
    """The rows of n passages among the m of `fit`, -1 for a new one; None: all, in their order. *Shape:* (n,)."""
    if rows is None:
        if n != m:
            raise UserError(f"passages: {n}, of which fit had {m}; give the row of each in fit as `rows`, -1: new")
        return np.arange(m)
    found = np.asarray(rows)
    if found.shape != (n,) or not np.issubdtype(found.dtype, np.integer):
        raise UserError(f"rows: shape {found.shape} of {found.dtype}; must be {n} whole numbers, one a passage")
    if found.min() < -1 or found.max() >= m:
        raise UserError(f"rows: {found.min()} to {found.max()}; must be from 0 to {m - 1}, or -1 for a new passage")
    return found


# --- files ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VectorFile:
    """The vectors of a file; of `.npy` the ids are row numbers."""

    path: Path
    matrix: NDArray[Any]  # (rows, d)
    column: pa.ChunkedArray  # the ids, text or whole numbers; (rows,)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Map `.npy`, or read Parquet."""
        if not path.is_file():
            raise UserError(f"{path}: no such file")
        try:
            if path.suffix == ".parquet":
                return cls(path, *_read_parquet(path))
            matrix = open_memmap(path, mode="r")
        except (ValueError, EOFError, SyntaxError, TokenError, pa.ArrowException) as error:  # NumPy parses a header
            raise UserError(f"{path}: must be .npy (not .npz), or .parquet with {COLUMNS} ({error})") from error
        if matrix.ndim != 2:
            raise UserError(f"{path}: shape {matrix.shape}; must be (rows, columns)")
        return cls(path, matrix, pa.chunked_array([np.arange(len(matrix))]))

    @cached_property
    def ids(self) -> pl.Series:
        """The ids as text. *Shape:* (rows,)."""
        return pl.Series(self.column).cast(pl.String)

    def rows_of(self, ids: pl.Series) -> pl.Series:
        """The rows of some ids, null where there is none."""
        index = pl.DataFrame({"id": self.ids, "row": np.arange(len(self.ids))})
        return ids.to_frame("id").join(index, on="id", how="left", maintain_order="left")["row"]


def read_training_data(
    passages: Path, queries: Path, qrels: Path, dev_queries: Path, dev_qrels: Path, unlabelled: Path | None
) -> tuple[list[VectorFile], TrainingData]:
    """Read and check files, but for vectors of other lengths than 1; the passages' comes first."""
    files = [VectorFile.read(path) for path in (passages, queries, dev_queries, unlabelled) if path]
    file, asking, dev_asking, *more = files
    dev = dev_asking.matrix, _read_pairs(dev_qrels, dev_asking, file)
    arrays = file.matrix, asking.matrix, _read_pairs(qrels, asking, file), dev, more[0].matrix if more else None
    names = passages, queries, qrels, dev_queries, dev_qrels, unlabelled
    return files, TrainingData.check(*arrays, similarity="dot", names=names)


def _read_pairs(path: Path, queries: VectorFile, passages: VectorFile) -> Rows:
    """The pairs of a qrels file with a grade above 0, as rows. *Shape:* (pairs, 2)."""
    relevant = read_qrels(path).filter(pl.col("grade") > 0)
    sides = ((queries, "qid", "query"), (passages, "pid", "passage"))
    rows = []
    for side, name, what in sides:
        found = side.rows_of(relevant[name])
        for unknown in relevant[name].filter(found.is_null())[:1]:
            by = "column id" if side.path.suffix == ".parquet" else "row number, from 0"
            told = f"{what} {unknown!r} is not in {side.path}, by {by}"
            raise UserError(f"{_place_of(path, name, unknown)}: {told}; correct or remove its lines")
        rows.append(found.to_numpy())
    return np.stack(rows, axis=1)


def _place_of(path: Path, name: str, wanted: str) -> str:
    """The first line of a qrels file with an id; of a table its path."""
    if path.suffix == ".parquet":
        return str(path)
    return next(place for place, judged in read_judged(path) if getattr(judged, name) == wanted)


def check_target(path: Path, read: Iterable[Path | None]) -> None:
    """Refuse a file that `writing` cannot write, before any work."""
    above = next(place for place in path.absolute().parents if place.exists())
    is_read = path.exists() and any(one.exists() and path.samefile(one) for one in read if one)
    faults = {
        "is read too; give another file": is_read,
        "must end in .npy or .parquet": path.suffix not in (".npy", ".parquet"),
        "is a folder; name a file": path.is_dir(),
        f"{above} is a file; name a place in a folder": not above.is_dir(),
    }
    if told := next((fault for fault, is_there in faults.items() if is_there), ""):
        raise UserError(f"--out {path}: {told}")


@contextmanager
def writing(path: Path, like: VectorFile) -> Iterator[NDArray[Any]]:
    """A matrix to fill in a file beside `path`, which becomes `path` when it is full; in Parquet with ids of `like`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    matrix, table = path.with_name(f".{path.name}.npy"), path.with_name(f".{path.name}.partial")
    try:
        filled = open_memmap(matrix, mode="w+", dtype=np.float32, shape=like.matrix.shape)
        yield filled
        filled.flush()
        if path.suffix == ".parquet":
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(filled.reshape(-1)), filled.shape[1])  # no copy
            columns = pa.table({"id": like.column, "vector": vectors})
            pq.write_table(columns, table, row_group_size=ROWS_AT_A_TIME)
            publish(table, path)
        else:
            publish(matrix, path)
    finally:
        matrix.unlink(missing_ok=True)
        table.unlink(missing_ok=True)


def _read_parquet(path: Path) -> tuple[NDArray[Any], pa.ChunkedArray]:
    """The vectors of the file's column `vector`, and its column `id`."""
    with undamaged(path):
        if not {"id", "vector"} <= set(names := pq.read_schema(path).names):
            raise ValueError(f"columns are {', '.join(names)}")
        table = pq.read_table(path, columns=["id", "vector"])
    vectors, column = table.column("vector"), table.column("id")
    if len(table) == 0 or len(pc.list_value_length(vectors).unique()) > 1:
        raise ValueError("vectors differ in length")
    matrix = pc.list_flatten(vectors).to_numpy().reshape(len(table), -1)
    ids = pl.Series(column)
    if not (ids.dtype.is_integer() or ids.dtype in (pl.String, pl.Categorical)):
        raise ValueError(f"column `id` has type {ids.dtype}; must be text or whole numbers")
    if ids.null_count():
        raise ValueError(f"column `id` has no value in row {ids.is_null().arg_max()}")
    if ids.is_duplicated().any():
        raise ValueError(f"id {str(ids.filter(ids.is_duplicated())[0])!r} stands twice")
    return matrix, column
