"""What a system makes of passages, and the interface by which it takes part in growing."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.storage.arrays import read_manifest
from gnn_encoder.growing.reading import Log

Rows = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Made:
    """Some passages as a segment holds them. *Shape:* vectors (b, d) float32, cached (b, d); edges as `EDGES`."""

    vectors: NDArray[np.float32]
    cached: NDArray[Any] | None = None
    edges: pa.Table | None = None


class Grower(Protocol):
    """A system that new passages can be given vectors of.

    Passages come as a DataFrame with columns pid, title, text.
    """

    def add(self, passages: pl.DataFrame, old: Rows) -> Made:
        """New passages. *Shape:* old (b,), the live row that each replaces, -1 where it replaces none."""

    def known_queries(self) -> pl.LazyFrame:
        """The texts of all queries that the system has taken in, by its build or from a log: column text."""

    def log(self, queries: Log, folder: Path) -> Rows:
        """Take in queries; write what must be kept of them into the folder of their segment.

        Returns:
            The rows of the passages that have to be made anew, ascending. *Shape:* (any,).

        Raises:
            UserError: the system has no use for queries.
        """

    def remake(self, passages: pl.DataFrame, rows: Rows) -> Made:
        """Passages that are there already, with the queries taken in. *Shape:* rows (b,)."""


def check_model(matrix: Path, fingerprint: str, stage: str) -> None:
    """Refuse a model that was trained anew since it made a matrix: new vectors would not be comparable.

    Raises:
        UserError: it was.
    """
    if read_manifest(matrix).model_fingerprint != fingerprint:
        cure = f"run `dvc repro {stage}` and what follows it"
        raise UserError(f"{matrix}: another model than the present one made it; {cure}")


def no_use_for_queries(system: str) -> UserError:
    """The error of a system whose passages are encoded alone."""
    return UserError(
        f"--system is {system!r}: its passages are encoded alone, a log changes none of them; take a system with a "
        "graph, such as gnn_encoder, or query_mean"
    )
