"""Searching BM25's index and a dense one together, fused as the system `hybrid` chose on dev."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.baselines.choice import Choice, Setting, read_choice
from gnn_encoder.baselines.fusion import Fusion
from gnn_encoder.baselines.rankings import best
from gnn_encoder.core.errors import UserError
from gnn_encoder.core.rows import Rows, Scores
from gnn_encoder.index.bm25 import BM25Index
from gnn_encoder.index.search import PassageIndex
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.systems import HYBRID, LEXICAL


def chosen() -> Choice:
    """What the system `hybrid` chose: the fusion, and in `facts` the dense system and the candidates of each side.

    Raises:
        UserError: it has not been made.
    """
    return read_choice(project.RUNS / HYBRID)


@dataclass(frozen=True, kw_only=True)
class HybridIndex:
    """Both indexes. `depth`: passages per query that each of them contributes."""

    dense: PassageIndex
    lexical: BM25Index
    setting: Setting
    depth: int

    @classmethod
    def open(cls, dense: PassageIndex) -> Self:
        """Open BM25's index beside the dense one, with the fusion that was chosen.

        Raises:
            UserError: a file is missing, or both indexes hold different numbers of passages.
        """
        choice, lexical = chosen(), BM25Index.open(project.index(LEXICAL))
        if lexical.passages != dense.passages:
            raise UserError(
                f"{project.index(LEXICAL)}: holds {lexical.passages} passages, {dense.folder} has {dense.passages}; "
                "make it again (`dvc repro index_bm25`)"
            )
        return cls(dense=dense, lexical=lexical, setting=choice.chosen.setting, depth=int(choice.facts["depth"]))

    def search(self, text: str, query: NDArray[np.float32], k: int) -> tuple[Rows, Scores]:
        """The best passages of one query. *Shape:* query (1, d) -> (1, at most k) both."""
        depth = min(max(self.depth, k), self.dense.passages)
        return self.fuse(text, self.dense.search(query, depth), k)

    def fuse(self, text: str, found: tuple[Rows, Scores], k: int) -> tuple[Rows, Scores]:
        """Fuse what the dense index found for one query with what BM25 finds. *Shape:* found (1, depth) both."""
        rows, scores = self.lexical.search([text], found[0].shape[1])
        fusion = Fusion.of(found, (rows.astype(np.int64), scores))
        return best(fusion.passages, fusion.scores(self.setting), k)
