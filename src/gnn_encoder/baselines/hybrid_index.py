"""Searching BM25's index and a dense one together, fused as the system `hybrid` chose on dev."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.baselines.choice import Setting, read_choice
from gnn_encoder.baselines.fusion import Fusion
from gnn_encoder.baselines.rankings import best
from gnn_encoder.core.errors import UserError
from gnn_encoder.core.rows import Rows, Scores
from gnn_encoder.index.bm25 import BM25Index
from gnn_encoder.index.search import PassageIndex


@dataclass(frozen=True, kw_only=True)
class HybridIndex:
    """Both indexes.

    Attributes:
        depth: passages per query that each of them contributes.
        dense_rows: the dense row of each of BM25's passages, -1 of those that were deleted since both were built.
            Passages that were added since have no part from BM25. *Shape:* (passages of BM25,).
    """

    dense: PassageIndex
    lexical: BM25Index
    setting: Setting
    depth: int
    dense_rows: Rows

    @classmethod
    def open(cls, dense: PassageIndex, lexical: Path, chosen: Path, rows: Path | None = None) -> Self:
        """Open BM25's index beside the dense one, with the fusion that was chosen.

        Args:
            dense: the dense index.
            lexical: folder of BM25's index.
            chosen: folder with the choice of the system `hybrid`.
            rows: an array of the row of each of its passages in BM25's index, -1 where that has none; None: the same.

        Raises:
            UserError: a file is missing, or both indexes are of different passages.
        """
        choice, bm25 = read_choice(chosen), BM25Index.open(lexical)
        of_lexical = np.arange(dense.passages) if rows is None else np.load(rows)
        if (bm25.passages != dense.passages) if rows is None else (bm25.passages <= of_lexical.max()):
            raise UserError(
                f"{lexical}: holds {bm25.passages} passages, {dense.folder} has {dense.passages}; "
                "make it again (`dvc repro bm25`)"
            )
        dense_rows = np.full(bm25.passages, -1)
        dense_rows[of_lexical[of_lexical >= 0]] = np.flatnonzero(of_lexical >= 0)
        setting, depth = choice.chosen.setting, int(choice.facts["depth"])
        return cls(dense=dense, lexical=bm25, setting=setting, depth=depth, dense_rows=dense_rows)

    @cached_property
    def _deleted(self) -> int:
        return int((self.dense_rows < 0).sum())

    def search(self, text: str, query: NDArray[np.float32], k: int) -> tuple[Rows, Scores]:
        """The best passages of one query. *Shape:* query (1, d) -> (1, at most k) both."""
        depth = min(max(self.depth, k), self.dense.passages)
        return self.fuse(text, self.dense.search(query, depth), k)

    def fuse(self, text: str, found: tuple[Rows, Scores], k: int) -> tuple[Rows, Scores]:
        """Fuse what the dense index found for one query with what BM25 finds. *Shape:* found (1, depth) both."""
        fusion = Fusion.of(found, self._lexical(text, found[0].shape[1]))
        return best(fusion.passages, fusion.scores(self.setting), k)

    def _lexical(self, text: str, depth: int) -> tuple[Rows, Scores]:
        """BM25's best passages that are still there, as dense rows, padded with -1. *Shape:* (1, depth) both."""
        rows, scores = self.lexical.search([text], depth + self._deleted)
        rows = np.where(rows < 0, -1, self.dense_rows[rows])
        order = np.argsort(rows < 0, axis=1, kind="stable")[:, :depth]
        rows, scores = np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)
        return rows, np.where(rows < 0, np.float32(0), scores)
