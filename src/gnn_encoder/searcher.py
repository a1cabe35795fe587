"""Searching a built system from Python, as `gnn-encoder search` does; docs/use.md shows how."""

import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import chdir
from dataclasses import asdict, dataclass
from pathlib import Path

from gnn_encoder.base.errors import UserError, without_controls
from gnn_encoder.base.matrix import Rows, Scores
from gnn_encoder.base.tables import PASSAGES
from gnn_encoder.base.words import is_empty
from gnn_encoder.controls.hybrid import HybridIndex
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.pipeline.project import HYBRID, LEXICAL, REGISTRY, read_registry
from gnn_encoder.search.faiss_index import PID_TABLE, PIDS, PassageIndex, TableRows
from gnn_encoder.text.corpus import load_encoder
from gnn_encoder.text.encoder import DualEncoder


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

    def as_json(self, query: str) -> str:
        """The query and its answer, on one line."""
        found = {"query": query, "truncated": self.truncated, "hits": [asdict(hit) for hit in self.hits]}
        # JSON escapes the control characters below 32, and leaves those from 127 on, which a terminal obeys too.
        return re.sub(r"[\x7f-\x9f]", lambda one: f"\\u{ord(one[0]):04x}", json.dumps(found, ensure_ascii=False))

    def as_lines(self, width: int) -> Iterator[str]:
        """Rank, score, id and title of each passage, and below it its text in lines of at most this width."""
        for hit in self.hits:
            pid, title, text = map(without_controls, (hit.pid, hit.title, hit.text))
            yield f"{hit.rank:>3}  {hit.score:8.4f}  {pid}" + (f"  {title}" if title else "")
            yield textwrap.fill(text, width, initial_indent="     ", subsequent_indent="     ") + "\n"


@dataclass(frozen=True)
class Searcher:
    """A system's encoder, its index, that of BM25 beside it if both are searched, and the passages' texts."""

    encoder: DualEncoder
    index: PassageIndex
    hybrid: HybridIndex | None
    pids: TableRows
    passages: TableRows

    @classmethod
    def open(cls, index: str | Path, *, hybrid: bool = False) -> "Searcher":
        """Open the index `data/indexes/SYSTEM` of a project.

        The project may be another folder than the current one, which then changes for a moment, so that this must not
        run beside other threads. With `hybrid`, BM25 and the query log are searched too, and all fused as the system
        `hybrid` chose on dev.
        """
        folder = Path(index).absolute()
        root, system = folder.parent.parent.parent, folder.name
        if folder != root / project.index(system):
            raise UserError(f"{index}: must be the folder {project.index('SYSTEM')} of a project")
        with chdir(root):
            known = read_registry(REGISTRY)
            if system not in known.dense:
                told = f"must be one of {', '.join(known.dense)}; BM25 and the log are asked beside one of these"
                raise UserError(f"{project.index(system)}: {system!r} {told}, by `--hybrid`")
            opened, passages = PassageIndex.open(project.index(system)), TableRows(project.PASSAGES, PASSAGES)
            if len(passages) != opened.passages:
                told = f"holds {opened.passages} passages, {project.PASSAGES} has {len(passages)}"
                raise UserError(f"{opened.folder}: {told}; build the index again (`dvc repro`)")
            model = known.encoder(system)
            opened.check_encoder(model)
            encoder = load_encoder(model, load_params().encoder)
            folders = project.index(LEXICAL), project.RUNS / HYBRID
            fused = HybridIndex.open(opened, system, *folders) if hybrid else None
            return cls(encoder, opened, fused, TableRows(opened.folder / PIDS, PID_TABLE), passages)

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """Find the `k` best passages, best first, or all passages where the corpus has fewer."""
        return self.answer([query], k)[0].hits

    def answer(self, queries: Sequence[str], k: int) -> list[Answer]:
        """Find the `k` best passages of each query; a UserError if one is empty or k is not above 0."""
        if any(is_empty(query) for query in queries):
            raise UserError("the query is empty: give it some words")
        if k < 1:
            raise UserError(f"k is {k}: must be 1 or more")
        if not queries:
            return []
        (vectors, is_cut), k = self.encoder.read_queries(queries), min(k, self.index.passages)
        if self.hybrid is None:
            found = list(zip(*self.index.search(vectors, k), strict=True))
        else:
            fused = [self.hybrid.search(query, vectors[i : i + 1], k) for i, query in enumerate(queries)]
            found = [(rows[0], scores[0]) for rows, scores in fused]
        return [Answer(hits=self._hits(*one), truncated=cut) for one, cut in zip(found, is_cut.tolist(), strict=True)]

    def _hits(self, rows: Rows, scores: Scores) -> list[Hit]:
        """The passages of one query's result. *Shape:* (k,) both; row -1 where nothing was found."""
        found = rows >= 0
        pids, texts = self.pids.take(rows[found]), self.passages.take(rows[found])
        if [row["pid"] for row in pids] != [row["pid"] for row in texts]:
            raise UserError(f"{self.index.folder}: made of other passages than now; build it again (`dvc repro`)")
        hits = zip(scores[found].tolist(), texts, strict=True)
        return [Hit(rank=rank, score=score, **text) for rank, (score, text) in enumerate(hits, 1)]
