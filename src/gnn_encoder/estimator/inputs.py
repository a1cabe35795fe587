"""What the estimator is given, checked and in the form that graph and training read."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.matrix import Matrix, array_blocks
from gnn_encoder.mgt.masking import fold_count

FLOATS = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))  # torch and FAISS take no others
UNIT = (0.99, 1.01)  # lengths; float16 rounds by less
ANY = (0, 10_000)  # scores grow with the square of the length, and float32 has 7 digits
RULES = {
    UNIT: "with similarity 'cosine' it must be 1: divide each row by its length, or take similarity 'dot'",
    ANY: "it must be at most 10,000: divide all vectors, of passages and of queries, by the same number",
}
PAIR = {"query": pl.Int32, "passage": pl.Int32}


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What `GNNEncoder.fit` is given.

    Attributes:
        passages: as they came. *Shape:* (m, d).
        nodes: training queries, then those without labels. *Shape:* (n + u, d) float32.
        training: how many are training queries, n.
        dev_queries: *Shape:* (q, d) float32.
        pairs, dev_pairs: what is relevant for training queries, and for dev queries; columns query, passage.
    """

    passages: NDArray[Any]
    nodes: Matrix
    training: int
    dev_queries: Matrix
    pairs: pl.DataFrame
    dev_pairs: pl.DataFrame

    @classmethod
    def check(
        cls, passages: Any, queries: Any, relevant: Any, dev: Any, unlabelled: Any | None, *, unit_length: bool
    ) -> Self:
        """Check the arguments of `fit`.

        Raises:
            UserError: one of them is something else.
        """
        if not (isinstance(dev, tuple | list) and len(dev) == 2):
            raise UserError("dev: must be a pair of the dev queries' vectors and what is relevant for them")
        passages = check_vectors("passages", passages, unit_length=unit_length)
        m, d = passages.shape
        others = {"queries": queries, "dev queries": dev[0]}
        others |= {} if unlabelled is None else {"unlabelled": unlabelled}
        asked, dev_asked, *rest = (
            np.asarray(check_vectors(name, vectors, columns=d, unit_length=unit_length), dtype=np.float32)
            for name, vectors in others.items()
        )
        return cls(
            passages=passages,
            nodes=np.concatenate([asked, *rest]),
            training=len(asked),
            dev_queries=dev_asked,
            pairs=labelled_pairs("relevant", relevant, len(asked), m),
            dev_pairs=labelled_pairs("dev relevant", dev[1], len(dev_asked), m),
        )


def check_vectors(name: str, vectors: Any, *, columns: int | None = None, unit_length: bool = False) -> NDArray[Any]:
    """Vectors as they came, not copied: a matrix of floats, in memory or mapped, without NaN or infinite values.

    Args:
        name: what errors call them.
        columns: how many they must have; None: any.
        unit_length: whether each must have length 1.

    Raises:
        UserError: they are something else.
    """
    matrix: NDArray[Any] = np.asanyarray(vectors)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise UserError(f"{name}: shape {matrix.shape}; must be (rows, columns), neither of them 0")
    check_type(name, matrix.dtype)
    if columns is not None and matrix.shape[1] != columns:
        raise UserError(f"{name}: {matrix.shape[1]} columns, the passages have {columns}: take one encoder for all")
    allowed = UNIT if unit_length else ANY
    for first, block in array_blocks(matrix, name=name):
        if (odd := not_of_length(block, *allowed)) is not None:
            raise UserError(f"{name}: row {first + odd[0]} has length {odd[1]:.3g}; {RULES[allowed]}")
    return matrix


def check_type(name: str, dtype: np.dtype[Any]) -> None:
    """Refuse an array of anything but `FLOATS`.

    Raises:
        UserError: it has another type, or another byte order than this machine.
    """
    if dtype not in FLOATS:
        raise UserError(f"{name}: type {dtype}; must be float16, float32 or float64, in this machine's byte order")


def not_of_length(block: Matrix, least: float, most: float) -> tuple[int, float] | None:
    """The first row whose length is not allowed, and its length; None where there is none. *Shape:* (n, d)."""
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(block, axis=1)  # infinite where float32 cannot hold it
    wrong = np.flatnonzero((lengths < least) | (lengths > most))
    return (int(wrong[0]), float(lengths[wrong[0]])) if len(wrong) else None


def check_sizes(k: int, beta: float, n_passages: int, pairs: pl.DataFrame, named: str) -> None:
    """Refuse fewer passages than a query is linked to, or fewer labelled queries than folds.

    Args:
        pairs: what is relevant for training queries, columns query, passage.
        named: what errors call the pairs.
    """
    if not 1 <= k <= n_passages:
        raise UserError(f"k is {k}: must be from 1 to the number of passages, {n_passages}")
    if (found := pairs["query"].n_unique()) < (least := fold_count(beta)):
        raise UserError(f"{named}: labels {found} queries; must be at least {least} (1 / beta, {beta}): label more")


def labelled_pairs(name: str, relevant: Any, n_queries: int, n_passages: int) -> pl.DataFrame:
    """Relevant pairs as columns query, passage, sorted, each pair once.

    Args:
        name: what errors call them.
        relevant: a SciPy sparse matrix, whose entries above 0 are the pairs *Shape:* (n_queries, n_passages); or pairs
            of rows, query first *Shape:* (pairs, 2).

    Raises:
        UserError: there is none, or one is of no query or passage.
    """
    if hasattr(relevant, "tocoo"):
        if relevant.shape != (n_queries, n_passages):
            raise UserError(f"{name}: shape {relevant.shape}; must be (queries, passages), {n_queries, n_passages}")
        entries = relevant.tocoo()
        rows = np.stack([entries.row, entries.col], axis=1)[entries.data > 0]
    else:
        try:
            rows = np.asarray(relevant)
        except ValueError as error:  # lists of different lengths
            raise UserError(f"{name}: must be pairs of rows, of a query and of a passage ({error})") from error
        if rows.size and (rows.ndim != 2 or rows.shape[1] != 2 or not np.issubdtype(rows.dtype, np.integer)):
            raise UserError(
                f"{name}: shape {rows.shape} of {rows.dtype}; must be a SciPy sparse matrix, or whole numbers of shape "
                "(pairs, 2): rows of queries and of passages"
            )
    if len(rows) == 0:
        raise UserError(f"{name}: no pair; at least one query must have a relevant passage")
    for column, (what, most) in enumerate((("query", n_queries), ("passage", n_passages))):
        outside = (rows[:, column] < 0) | (rows[:, column] >= most)
        if outside.any():
            place = int(np.argmax(outside))
            raise UserError(
                f"{name}: pair {place} has {what} {rows[place, column]}; must be a row from 0 to {most - 1}"
            )
    found = pl.DataFrame({"query": rows[:, 0], "passage": rows[:, 1]}, schema_overrides=PAIR)
    return found.unique().sort("query", "passage")
