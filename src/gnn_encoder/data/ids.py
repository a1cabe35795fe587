"""The ids of a table in 8 bytes an id: only hashes are kept, and ids are compared only where two hashes are equal."""

from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.core.errors import UserError
from gnn_encoder.data.rows import Place


class Ids:
    """Ids in row order, collected batch by batch."""

    def __init__(self) -> None:
        self._batches: list[NDArray[np.uint64]] = []
        self._sorted: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)

    def add(self, ids: list[str]) -> None:
        """Append the ids of the next rows."""
        self._batches.append(hash_ids(pl.Series(ids, dtype=pl.String)))

    def check_unique(self, rows: Iterable[tuple[Place, str]], column: str) -> None:
        """Check that no two rows have the same id. Call it after the last `add`, and before `contain`.

        Args:
            rows: place and id of every row once more; they are read only if two hashes are equal.
            column: what the source calls the id.

        Raises:
            UserError: two rows have the same id.
        """
        hashes = np.concatenate([*self._batches, self._sorted])
        self._batches = []
        self._sorted = np.sort(hashes)
        repeated = np.unique(self._sorted[1:][self._sorted[1:] == self._sorted[:-1]])
        if len(repeated):
            suspects = np.flatnonzero(np.isin(hashes, repeated))
            _raise_if_repeated(_pick(rows, suspects), column)

    def contain(self, ids: pl.Series) -> NDArray[np.bool_]:
        """Whether each of `ids` is among the collected ones (wrong for one unknown id in 2**64 / rows)."""
        hashes = hash_ids(ids)
        if not len(self._sorted):
            return np.zeros(len(hashes), dtype=np.bool_)
        nearest = np.searchsorted(self._sorted, hashes).clip(max=len(self._sorted) - 1)
        return np.asarray(self._sorted[nearest] == hashes)


def hash_ids(ids: pl.Series) -> NDArray[np.uint64]:
    """64-bit hash of each string; the same within a process."""
    return ids.hash(seed=0).to_numpy()


def _pick(rows: Iterable[tuple[Place, str]], wanted: NDArray[np.intp]) -> Iterator[tuple[Place, str]]:
    positions = set(wanted.tolist())
    return (row for i, row in enumerate(rows) if i in positions)


def _raise_if_repeated(rows: Iterable[tuple[Place, str]], column: str) -> None:
    first: dict[str, Place] = {}
    for place, key in rows:
        if key in first:
            raise UserError(f"{place}, {column}: {key!r} is also the id in {first[key].row}; give each row its own")
        first[key] = place
