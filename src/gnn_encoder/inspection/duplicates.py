"""How many texts are there more than once, by their hashes, in bounded memory."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.data.ids import hash_ids

LIMIT = 2**25  # hashes kept: 256 MiB, more than any corpus of the papers has passages


class Duplicates:
    """Counts texts that are equal to an earlier one.

    Up to LIMIT texts the count is exact (two texts share 64 bits once in 2**64 / texts). Beyond, only texts whose hash
    ends in one zero bit are kept, then two, ...: equal texts stay or go together, so that the count of those kept,
    times two for every bit, estimates that of all.
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
        """Whether every text was looked at."""
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
