"""BM25 and a grown index together. BM25's index is of the built passages alone: added ones have no part from it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.baselines.fusion import Fusion
from gnn_encoder.baselines.rankings import best
from gnn_encoder.core.rows import Rows, Scores
from gnn_encoder.growing.search import GrownIndex
from gnn_encoder.index.hybrid import HybridIndex


@dataclass(frozen=True)
class GrownHybrid:
    """The hybrid of a built index, and what grew on that index."""

    built: HybridIndex
    grown: GrownIndex

    def search(self, text: str, query: NDArray[np.float32], k: int) -> tuple[Rows, Scores]:
        """The best passages of one query. *Shape:* query (1, d) -> (1, at most k) both."""
        depth = min(max(self.built.depth, k), self.grown.passages)
        found = self.grown.search(query, depth)
        return best(*self._fuse(found, self._lexical(text, depth)), k)

    def _fuse(self, dense: tuple[Rows, Scores], lexical: tuple[Rows, Scores]) -> tuple[Rows, Scores]:
        fusion = Fusion.of(dense, lexical)
        return fusion.passages, fusion.scores(self.built.setting)

    def _lexical(self, text: str, depth: int) -> tuple[Rows, Scores]:
        """BM25's best passages that are live, padded with -1. *Shape:* (1, depth) both."""
        dead = self.grown.overlay.dead
        hidden = dead[dead < self.built.lexical.passages]
        rows, scores = self.built.lexical.search([text], depth + len(hidden))
        live = (rows[0] >= 0) & ~np.isin(rows[0], hidden)
        passages, values = np.full((1, depth), -1, dtype=np.int64), np.zeros((1, depth), dtype=np.float32)
        count = min(depth, int(live.sum()))
        passages[0, :count], values[0, :count] = rows[0][live][:count], scores[0][live][:count]
        return passages, values
