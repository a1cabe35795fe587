"""Vectors and judgements in files, as `gnn-encoder inform` reads and writes them."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
from gnn_encoder.base.matrix import Rows
from gnn_encoder.base.tables import undamaged
from gnn_encoder.evaluation.runs_and_qrels import read_qrels

ROWS_AT_A_TIME = 8_192
COLUMNS = "columns `id` and `vector`, a list of numbers of the same length in each row"


@dataclass(frozen=True)
class Vectors:
    """The vectors of a file; `ids` is None for `.npy`, whose ids are row numbers."""

    path: Path
    matrix: NDArray[Any]  # (rows, d)
    ids: pl.Series | None

    @classmethod
    def read(cls, path: Path) -> Self:
        """Map `.npy`, or read Parquet.

        Raises:
            UserError: the file is missing, or is neither.
        """
        if not path.is_file():
            raise UserError(f"{path}: no such file")
        try:
            if path.suffix == ".parquet":
                return cls(path, *_read_parquet(path))
            return cls(path, open_memmap(path, mode="r"), None)
        except (ValueError, EOFError, SyntaxError, TokenError, pa.ArrowException) as error:  # NumPy parses a header
            raise UserError(f"{path}: must be .npy (not .npz), or .parquet with {COLUMNS} ({error})") from error

    def rows_of(self, ids: pl.Series, named_in: Path, what: str) -> Rows:
        """The rows of some ids that another file names; `what` they are, for messages.

        Raises:
            UserError: there is no such id.
        """
        if self.ids is None:
            rows = ids.cast(pl.Int64, strict=False)
            rows = rows.set(~rows.is_between(0, len(self.matrix) - 1), None)
        else:
            index = pl.DataFrame({"id": self.ids, "row": np.arange(len(self.ids))})
            rows = ids.to_frame("id").join(index, on="id", how="left", maintain_order="left")["row"]
        if rows.null_count():
            unknown = ids.filter(rows.is_null())[0]
            known = f"whose ids are row numbers, 0 to {len(self.matrix) - 1}" if self.ids is None else "by column id"
            raise UserError(
                f"{named_in}: {what} {unknown!r} is not in {self.path}, {known}; correct or remove its lines"
            )
        return rows.to_numpy()


def read_pairs(path: Path, queries: Vectors, passages: Vectors) -> Rows:
    """The pairs of a qrels file with a grade above 0, as rows. *Shape:* (pairs, 2)."""
    relevant = read_qrels(path).filter(pl.col("grade") > 0)
    sides = ((queries, "qid", "query"), (passages, "pid", "passage"))
    return np.stack([side.rows_of(relevant[name], path, what) for side, name, what in sides], axis=1)


def check_target(path: Path, passages: Path, others: Iterable[Path | None]) -> None:
    """Refuse a file that `writing` cannot write, before any work.

    Raises:
        UserError: it is the passages or another file that is read; it is neither `.npy` nor, for passages with ids,
            `.parquet`; or no file can be there.
    """
    if path.exists() and any(one.exists() and path.samefile(one) for one in (passages, *others) if one):
        raise UserError(f"--out {path}: is read too; give another file")
    if path.suffix == ".parquet" and passages.suffix != ".parquet":
        raise UserError(f"--out {path}: the passages have no ids; read them from Parquet, or write .npy")
    if path.suffix not in (".npy", ".parquet"):
        raise UserError(f"--out {path}: must end in .npy or .parquet")
    if path.is_dir():
        raise UserError(f"--out {path}: is a folder; name a file")
    if not (above := next(place for place in path.absolute().parents if place.exists())).is_dir():
        raise UserError(f"--out {path}: {above} is a file; name a place in a folder")


@contextmanager
def writing(path: Path, like: Vectors) -> Iterator[NDArray[Any]]:
    """A matrix to fill, mapped to a file beside `path`, which becomes the file that was asked for when it is full.

    Args:
        path: `.npy`, or `.parquet` with the ids of `like`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    matrix, table = path.with_name(f".{path.name}.npy"), path.with_name(f".{path.name}.partial")
    try:
        filled = open_memmap(matrix, mode="w+", dtype=np.float32, shape=like.matrix.shape)
        yield filled
        filled.flush()
        if like.ids is not None and path.suffix == ".parquet":
            _write_parquet(table, like.ids, filled)
            publish(table, path)
        else:
            publish(matrix, path)
    finally:
        matrix.unlink(missing_ok=True)
        table.unlink(missing_ok=True)


def _read_parquet(path: Path) -> tuple[NDArray[Any], pl.Series]:
    with undamaged(path):
        table = pq.read_table(path)
    if not {"id", "vector"} <= set(table.column_names):
        raise ValueError(f"columns are {', '.join(table.column_names)}")
    column = table.column("vector").combine_chunks()
    if len(table) == 0 or len(pc.list_value_length(column).unique()) > 1:
        raise ValueError("vectors differ in length")
    values = column.flatten().to_numpy(zero_copy_only=False)
    ids = pl.Series(table.column("id"))
    if not (ids.dtype.is_integer() or ids.dtype in (pl.String, pl.Categorical)):
        raise ValueError(f"column `id` has type {ids.dtype}; must be text or whole numbers")
    ids = ids.cast(pl.String)
    if ids.is_duplicated().any():
        raise ValueError(f"id {ids.filter(ids.is_duplicated())[0]!r} stands twice")
    return values.reshape(len(table), -1), ids


def _write_parquet(path: Path, ids: pl.Series, matrix: NDArray[np.float32]) -> None:
    schema = pa.schema({"id": pa.string(), "vector": pa.list_(pa.float32(), matrix.shape[1])})
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, len(ids), ROWS_AT_A_TIME):
            part = slice(first, first + ROWS_AT_A_TIME)
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(matrix[part].reshape(-1)), matrix.shape[1])
            writer.write_table(pa.table([pa.array(ids[part].to_list(), pa.string()), vectors], schema=schema))
