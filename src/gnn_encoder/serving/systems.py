"""The systems that are served, and how a new version of an index takes the place of the one in use."""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import faiss

from gnn_encoder.base.errors import UserError, not_built
from gnn_encoder.base.files import MANIFEST
from gnn_encoder.growing.versions import current
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.project import MAIN, REFERENCE, System, registry
from gnn_encoder.search.faiss_index import check_ids
from gnn_encoder.searcher import Answer, Searcher
from gnn_encoder.serving.batches import Batches

log = logging.getLogger(__name__)
WAITING, TOGETHER = 512, 32  # queries of a system that may wait; those that are encoded together
EVERY = "all"  # in place of names: every system that is built
# FAISS multiplies matrices only from 128,000 queries on; on one thread 16 queries are twice as fast that way.
MATRIX_QUERIES = 8
ENCODER = ThreadPoolExecutor(1, "encoder")  # one for all systems, since two would wait for each other's cores


@dataclass(frozen=True, kw_only=True)
class Served:
    """An open system. A newer one takes its place as a whole, and requests in flight keep the old one."""

    name: str
    entry: System
    searcher: Searcher
    manifest: str  # of its index, by which a newer index is told from this one
    batches: Batches[tuple[str, int], Answer]

    @classmethod
    def open(cls, name: str, *, hybrid: bool) -> "Served":
        """Open a system, and search with it once."""
        manifest = _manifest(name)
        searcher = Searcher.open(project.index(name), hybrid=hybrid)
        check_ids(searcher.version.index, searcher.version.passages)
        searcher.search("trial", 1)

        def search(works: Sequence[tuple[str, int]]) -> list[Answer]:
            found = searcher.answer([query for query, _ in works], max(k for _, k in works))
            return [replace(one, hits=one.hits[:k]) for one, (_, k) in zip(found, works, strict=True)]

        batches = Batches(search, ENCODER, waiting=WAITING, batch=TOGETHER)
        entry = registry().dense[name]
        return cls(name=name, entry=entry, searcher=searcher, manifest=manifest, batches=batches)


class Systems:
    """The systems that are served, of the project in the current folder.

    Args:
        wanted: their names, or `all`; none: GNN-encoder and M_de, as far as they are built. The first one answers where
            a request names none.
        hybrid: whether each is fused with BM25.
    """

    def __init__(self, wanted: Sequence[str], *, hybrid: bool) -> None:
        faiss.cvar.distance_compute_blas_threshold = MATRIX_QUERIES
        self._hybrid = hybrid
        self._open = {name: Served.open(name, hybrid=hybrid) for name in _chosen(wanted)}
        self._refused: dict[str, str] = {}

    @property
    def names(self) -> list[str]:
        """Their names."""
        return list(self._open)

    def __getitem__(self, name: str) -> Served:
        """An open system; KeyError: it is not served."""
        return self._open[name]

    async def take_over(self) -> list[str]:
        """Open the systems whose index is new, let them answer from now on, and name them.

        One that cannot be opened, such as one whose files are not all there yet, is looked at again next time. The old
        one goes on answering.
        """
        return [name for name in self.names if await asyncio.to_thread(self._take_over, name)]

    def _take_over(self, name: str) -> bool:
        try:
            if _manifest(name) == self._open[name].manifest:
                return False
            self._open[name] = Served.open(name, hybrid=self._hybrid)
        except Exception as error:  # whatever is wrong on the disk
            if self._refused.get(name) != str(error):
                log.warning("%s: its index has changed but cannot be taken over yet: %s", name, error)
            self._refused[name] = str(error)
            return False
        self._refused.pop(name, None)
        passages = self._open[name].searcher.index.passages
        log.info("%s: took over what is new on disk; %d passages can be found", name, passages)
        return True


def _manifest(system: str) -> str:
    """The manifest of the index that counts, which is written last."""
    path = current(system).index / MANIFEST
    if not path.is_file():
        raise not_built(path)
    return path.read_text(encoding="utf-8")


def _chosen(wanted: Sequence[str]) -> list[str]:
    dense = registry().dense
    built = [name for name in dense if (project.index(name) / MANIFEST).is_file()]
    usual = [name for name in (MAIN, REFERENCE) if name in built]
    if EVERY in wanted:
        wanted = [*usual, *built]
    for name in wanted:
        if name not in dense:
            raise UserError(f"--system is {name!r}: must be {EVERY} or one of {', '.join(dense)}")
    if not wanted and not usual:
        raise not_built(project.index(MAIN))
    return list(dict.fromkeys(wanted)) or usual
