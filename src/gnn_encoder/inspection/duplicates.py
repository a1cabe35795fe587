"""How many texts repeat an earlier one, counted by their hashes in bounded memory."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.data.ids import hash_ids

LIMIT = 2**25  # hashes kept: 256 MiB, more than any corpus of the papers has passages


class Duplicates:
    """Counts texts that are equal to an earlier one.

    Up to LIMIT texts the count is exact (a new text has the hash of another one once in 2**64 / texts). Beyond that,
    only hashes that end in one zero bit are kept, then only those that end in two, and so on. Equal texts are kept or
    dropped together, so that the count among the kept ones, doubled for every bit, estimates the count of all.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._kept: list[NDArray[np.uint64]] = []
        self._size = 0
        self._bits = 0

    def add(self, texts: list[str]) -> None:
        """Count some texts."""
        self._keep(hash_ids(pl.Series(texts, dtype=pl.String)))
        while self._size > self._limit:
            self._bits += 1
            kept, self._kept, self._size = self._kept, [], 0
            for hashes in kept:
                self._keep(hashes)

    @property
    def exact(self) -> bool:
        """Whether the hashes of all texts were kept."""
        return self._bits == 0

    def count(self) -> int:
        """Texts that are equal to an earlier one."""
        hashes = np.concatenate([np.empty(0, dtype=np.uint64), *self._kept])
        hashes.sort()
        return int(np.count_nonzero(hashes[1:] == hashes[:-1])) << self._bits

    def _keep(self, hashes: NDArray[np.uint64]) -> None:
        kept = hashes[(hashes & np.uint64((1 << self._bits) - 1)) == 0]
        self._kept.append(kept)
        self._size += len(kept)
