"""BM25, a dense system and the query log together: one ranking of all, and their indexes searched for a query.

What the log says is added to the dense scores (`logged_neighbours`). This ranking and BM25's are joined by a weighted
sum of standardised scores.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.matrix import Matrix, Rows, Scores
from gnn_encoder.controls.choose import NOTHING, Candidates, Choice, Ranking, Setting, read_choice, taken, top, union
from gnn_encoder.controls.log import LABELLED, LabelledQueries, with_log
from gnn_encoder.search.bm25 import BM25Index
from gnn_encoder.search.faiss_index import PassageIndex

WEIGHTS = tuple(step / 10 for step in range(11))  # BM25's; of equally good ones the first is taken
AMONG_EQUALS = np.float32(1e-4)  # weight of the dense scores where BM25 has all: what it does not find stays in order


def fused(dense: Ranking, lexical: Ranking) -> Candidates:
    """The passages that two systems found, with (1 - w) z(dense) + w z(BM25), where w is the setting's `weight`.

    Where w is 1, dense scores order equals. *Shape:* (n, a), (n, b): passages and scores, best first.
    """
    passages, in_dense, in_lexical = union(dense[0], lexical[0])
    of_dense = taken(in_dense, *standardised(*dense))
    of_lexical = taken(in_lexical, *standardised(*lexical, others=0.0))

    def scores(setting: Setting) -> Scores:
        weight = np.float32(setting["weight"])
        found = max(1 - weight, AMONG_EQUALS) * of_dense + weight * of_lexical
        return np.where(passages < 0, NOTHING, found).astype(np.float32)

    return passages, scores


def standardised(passages: Rows, scores: Scores, others: float | None = None) -> tuple[Scores, Scores]:
    """Scores of each query's passages with mean 0 and standard deviation 1, and what a passage gets that is not there.

    That is the lowest of them. But if it is known what `others` score, and the system found fewer than it could, one of
    these counts with the passages found: so the only passage with a rare word stands above all others.
    All are 0 where all scores are equal, or none was found.

    *Shape:* (n, k) both -> (n, k), (n,).
    """
    one_more = ((0, 0), (0, 1))
    found = np.pad(passages >= 0, one_more)
    if others is not None:
        found[:, -1] = ~found[:, :-1].all(axis=1)
    count = np.maximum(found.sum(axis=1, keepdims=True), 1)
    values = np.where(found, np.pad(scores, one_more, constant_values=others or 0), 0).astype(np.float64)
    centred = np.where(found, values - values.sum(axis=1, keepdims=True) / count, 0)
    deviation = np.sqrt((centred**2).sum(axis=1, keepdims=True) / count)
    result = np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 0).astype(np.float32)
    return result[:, :-1], result.min(axis=1, initial=0.0)


@dataclass(frozen=True, kw_only=True)
class HybridIndex:
    """The dense index, the logged queries and BM25's index, as far as the fusion asks them.

    Attributes:
        lexical: None: BM25 has no part in the fusion.
        log: None: the log has none.
        depth: passages per query that each of them contributes.

    BM25 and the log know the passages of the build, which are the first of the dense index.
    """

    dense: PassageIndex
    lexical: BM25Index | None
    log: LabelledQueries | None
    choice: Choice
    depth: int

    @classmethod
    def open(cls, dense: PassageIndex, system: str, lexical: Path, folder: Path, built: int | None = None) -> Self:
        """Open what is asked beside the dense index, with the fusion that was chosen.

        Args:
            dense: the dense index.
            system: whose it is; the log was embedded for the system that the fusion was chosen with, and for others it
                is left out.
            lexical: folder of BM25's index.
            folder: the runs of the system `hybrid`, with its choice.
            built: how many of the dense index's passages are of the build; None: all.
        """
        bm25, choice, built = BM25Index.open(lexical), read_choice(folder), built or dense.passages
        if bm25.passages != built:
            raise UserError(
                f"{lexical}: holds {bm25.passages} passages, {dense.folder} has {built}; make it again (`dvc repro`)"
            )
        asks = "log_weight" in choice.facts and choice.facts["dense"] == system
        return cls(
            dense=dense,
            lexical=bm25 if choice.setting["weight"] else None,
            log=LabelledQueries.open(folder / LABELLED) if asks else None,
            choice=choice,
            depth=int(choice.facts["depth"]),
        )

    def search(self, text: str, query: Matrix, k: int) -> Ranking:
        """The best passages of one query. *Shape:* query (1, d) -> (1, at most k) both."""
        depth = min(max(self.depth, k), self.dense.passages)
        return self.fuse(text, query, self.dense.search(query, depth), k)

    def fuse(self, text: str, query: Matrix, found: Ranking, k: int) -> Ranking:
        """Fuse what the dense index found for one query with what the log and BM25 say. *Shape:* found (1, n) both."""
        depth = found[0].shape[1]
        if self.log is not None:
            found = self._asked(self.log, query, found, depth)
        if self.lexical is None:
            return found[0][:, :k], found[1][:, :k]
        passages, scores = fused(found, self.lexical.search([text], depth))
        return top(passages, scores(self.choice.setting), k)

    def _asked(self, log: LabelledQueries, query: Matrix, found: Ranking, depth: int) -> Ranking:
        """What the dense index found, ranked anew by what the log says. *Shape:* found (1, n) -> (1, n) both."""
        facts = self.choice.facts
        setting = {name.removeprefix("log_"): value for name, value in facts.items() if name.startswith("log_")}
        given = log.look_up(query, int(setting["neighbours"]))
        passages, scores = with_log(found, given, float(setting["unit"]))
        return top(passages, scores(setting), depth)
