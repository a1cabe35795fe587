"""Searching a built system from Python, as `gnn-encoder search` does.

    from gnn_encoder import Searcher

    for hit in Searcher.open("data/indexes/gnn_encoder").search("Does Medicare cover hearing aids?", k=10):
        print(hit.rank, hit.score, hit.pid, hit.text)

Torch, FAISS and the rest are imported only when a system is opened.
"""

from collections.abc import Iterator, Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.words import is_empty
from gnn_encoder.growing.versions import Version, current
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.project import HYBRID, LEXICAL, REGISTRY, read_registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gnn_encoder.controls.hybrid import HybridIndex
    from gnn_encoder.search.faiss_index import PassageIndex, TableRows
    from gnn_encoder.text.encoder import DualEncoder

    Found = tuple[NDArray[np.int64], NDArray[np.floating]]


@dataclass(frozen=True, kw_only=True)
class Hit:
    """One passage found; `rank` counts from 1, `score` is what the system ranks by."""

    rank: int
    score: float
    pid: str
    title: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What was found for a query, best first; `truncated`: the encoder did not read its end, since it is too long."""

    hits: list[Hit]
    truncated: bool


@dataclass(frozen=True, kw_only=True)
class Searcher:
    """A system's encoder, its index, that of BM25 beside it if both are searched, and the passages' texts.

    `version` says whether that is the index that was built, or what `gnn-encoder add` and `delete` made of it.
    """

    version: Version
    encoder: "DualEncoder"
    index: "PassageIndex"
    hybrid: "HybridIndex | None"
    pids: "TableRows"
    passages: "TableRows"

    @classmethod
    def open(cls, index: str | Path, *, hybrid: bool = False) -> "Searcher":
        """Open a built system.

        Args:
            index: its index, `data/indexes/SYSTEM` of a project. The project may be another folder than the current
                one, which then changes for a moment, so that this must not run beside other threads.
            hybrid: whether BM25 and the query log are searched too, and all fused as the system `hybrid` chose on dev.

        Raises:
            UserError: the folder is no index of a dense system, one of the system's artifacts is missing, or its index
                holds another number of passages than the passages table.
        """
        folder = Path(index).absolute()
        if len(folder.parents) < 3 or folder.parent != folder.parents[2] / project.index(folder.name).parent:
            raise UserError(f"{index}: must be the folder {project.index('SYSTEM')} of a project")
        with chdir(folder.parents[2]):
            return cls._open(folder.name, hybrid)

    @classmethod
    def _open(cls, system: str, hybrid: bool) -> "Searcher":
        from gnn_encoder.base.tables import PASSAGES
        from gnn_encoder.search.faiss_index import PID_TABLE, PIDS, PassageIndex, TableRows
        from gnn_encoder.text.encoder import DualEncoder

        dense = read_registry(REGISTRY).dense
        if system not in dense:
            raise UserError(f"{project.index(system)}: {system!r} must be one of {', '.join(dense)}")
        found = current(system)
        index, passages = PassageIndex.open(found.index), TableRows(found.passages, PASSAGES)
        if len(passages) != index.passages:
            raise UserError(
                f"{index.folder}: holds {index.passages} passages, {found.passages} has {len(passages)}; "
                "build the index again (`dvc repro`)"
            )
        both = None
        if hybrid:  # only then: it loads BM25
            from gnn_encoder.controls.hybrid import HybridIndex

            both = HybridIndex.open(index, system, project.index(LEXICAL), project.RUNS / HYBRID, found.rows)
        return cls(
            version=found,
            encoder=DualEncoder.load(Path(dense[system].encoder), precision="fp32").for_inference(),
            index=index,
            hybrid=both,
            pids=TableRows(index.folder / PIDS, PID_TABLE),
            passages=passages,
        )

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """Find the `k` best passages, best first, or all passages where the corpus has fewer.

        Raises:
            UserError: as `answer`.
        """
        return self.answer([query], k)[0].hits

    def answer(self, queries: Sequence[str], k: int) -> list[Answer]:
        """Find the `k` best passages of each of some queries.

        Raises:
            UserError: a query is empty, k is not above 0, or the index holds other passages than the passages table.
        """
        if any(is_empty(query) for query in queries):
            raise UserError("the query is empty: give it some words")
        if k < 1:
            raise UserError(f"k is {k}: must be 1 or more")
        if not queries:
            return []
        vectors, is_cut = self.encoder.read_queries(queries)
        hits = [self._hits(*found) for found in self._find(queries, vectors, min(k, self.index.passages))]
        return [Answer(hits=found, truncated=cut) for found, cut in zip(hits, is_cut.tolist(), strict=True)]

    def _find(self, queries: Sequence[str], vectors: "NDArray[np.float32]", k: int) -> "Iterator[Found]":
        """Rows and scores of each query. *Shape:* vectors (queries, d) -> (k,) both."""
        if self.hybrid is None:
            yield from zip(*self.index.search(vectors, k), strict=True)
            return
        for i, query in enumerate(queries):
            rows, scores = self.hybrid.search(query, vectors[i : i + 1], k)
            yield rows[0], scores[0]

    def _hits(self, rows: "NDArray[np.int64]", scores: "NDArray[np.floating]") -> list[Hit]:
        """The passages of one query's result. *Shape:* (k,) both; row -1 where nothing was found."""
        found = rows >= 0
        pids, texts = self.pids.take(rows[found]), self.passages.take(rows[found])
        if [row["pid"] for row in pids] != [row["pid"] for row in texts]:
            raise UserError(f"{self.index.folder}: made of other passages than now; build it again (`dvc repro`)")
        hits = zip(scores[found].tolist(), texts, strict=True)
        return [Hit(rank=rank, score=score, **text) for rank, (score, text) in enumerate(hits, 1)]
