"""The systems that are served, and how a newly built index takes the place of the one in use."""

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from gnn_encoder.baselines.choice import CHOICE
from gnn_encoder.core.errors import UserError
from gnn_encoder.core.records import PASSAGES, QUERIES, open_table
from gnn_encoder.core.storage.fingerprint import MANIFEST
from gnn_encoder.growing.versions import pointer_of
from gnn_encoder.index.build import INDEX, PIDS
from gnn_encoder.index.search import check_ids
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.systems import (
    HYBRID,
    LEXICAL,
    MAIN,
    REFERENCE,
    REGISTRY,
    Registry,
    System,
    read_registry,
)
from gnn_encoder.searcher import Searcher
from gnn_encoder.serving.engine import Encoders
from gnn_encoder.serving.problems import Problem

log = logging.getLogger(__name__)
SHOWN = 6
FITTING = range(20, 61)  # characters of a query that is easy to read
EVERY = "all"  # in place of names: every system that is built
REMEMBERED = 65_536  # rows of passages that were asked for
Signature = tuple[tuple[int, int, int] | None, ...]  # of each file: time of change, bytes, inode; None: no such file


class PassageTable:
    """Finds rows of a passages table by id. Safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        self._file = open_table(path, PASSAGES)
        self._reading = threading.Lock()
        self._rows: OrderedDict[str, int] = OrderedDict()

    def row(self, pid: str) -> int | None:
        """The row of a passage, or None. Reads the column of ids, row group by row group, unless it is remembered."""
        with self._reading:
            row = self._rows.pop(pid, None)
            if row is None and (row := self._scan(pid)) is None:
                return None  # not remembered: whoever asks must not fill memory with ids of their own
            self._rows[pid] = row
            if len(self._rows) > REMEMBERED:
                self._rows.popitem(last=False)
            return row

    def _scan(self, pid: str) -> int | None:
        first = 0
        for group in range(self._file.metadata.num_row_groups):
            column = self._file.read_row_group(group, columns=["pid"]).column("pid")
            place = pc.index(column, pid).as_py()
            if place >= 0:
                return first + int(place)
            first += len(column)
        return None


def signature(paths: Iterable[Path]) -> Signature:
    """What tells a new version of some files from the old one."""
    return tuple(_state(path) for path in paths)


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:  # not there, or its folder is being moved
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class Change:
    """Tells once when files are new and at rest: two looks in a row must find the same new state."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths
        self._taken = self._last = signature(paths)

    def settled(self) -> bool:
        """Whether the files differ from those that were taken last, and have not changed since the look before."""
        found = signature(self.paths)
        at_rest, self._last = found == self._last, found
        return at_rest and found != self._taken

    def take(self) -> None:
        """Remember the state of the last look as the one in use, or as one that is no use."""
        self._taken = self._last


@dataclass(frozen=True, kw_only=True)
class Served:
    """An open system. What is opened later takes its place as a whole, and requests in flight keep the old one."""

    name: str
    entry: System
    searcher: Searcher
    hybrid: Searcher | None
    table: PassageTable
    opened: datetime

    def to_search(self, hybrid: bool) -> Searcher:
        """The searcher of a request.

        Raises:
            Problem: BM25 is asked for and not served.
        """
        if not hybrid:
            return self.searcher
        if self.hybrid is None:
            raise Problem(409, "no-hybrid", "BM25 is not served: start the server with --hybrid")
        return self.hybrid

    def vectors(self, row: int) -> NDArray[np.float32]:
        """The views of a row's passage. *Shape:* (views, d).

        Raises:
            RuntimeError: the index is of a type that does not give its vectors back.
        """
        index = self.searcher.index
        return np.stack([index.index.reconstruct(row * index.views + view) for view in range(index.views)])

    def passage(self, pid: str) -> tuple[int, dict[str, Any]]:
        """The row of a passage and its fields.

        Raises:
            Problem: no passage has the id.
        """
        row = self.table.row(pid)
        if row is None:
            raise Problem(404, "unknown-passage", f"no passage has the id {pid!r}")
        return row, self.searcher.passages.take(np.array([row]))[0]


def watched(system: str, hybrid: bool) -> list[Path]:
    """The files whose change means that a system is new; with `hybrid` also what is searched beside it."""
    files = [*(project.index(system) / name for name in (MANIFEST, INDEX, PIDS)), pointer_of(system)]
    if not hybrid:
        return files
    from gnn_encoder.index.bm25 import SETTINGS  # only here: it loads what a server without BM25 does not need

    return [*files, project.index(LEXICAL) / SETTINGS, project.runs(HYBRID) / CHOICE]


@dataclass
class Systems:
    """The systems that are served, and those that their vectors are made from. The current folder is the project's.

    Attributes:
        names: the systems that are served; the first one answers where none is named.
        hybrid: whether BM25 is searched beside them where it is asked for.
    """

    registry: Registry
    names: tuple[str, ...]
    hybrid: bool
    encoders: Encoders = field(default_factory=Encoders)
    _open: dict[str, Served] = field(default_factory=dict)
    _changes: dict[str, Change] = field(default_factory=dict)
    _refused: dict[str, str] = field(default_factory=dict)

    @classmethod
    def open(cls, names: Sequence[str], *, hybrid: bool = False) -> "Systems":
        """Open systems that are built.

        Args:
            names: systems, or `all`; none: GNN-encoder and M_de, as far as they are built.

        Raises:
            UserError: a name is unknown, or a system is not built.
        """
        registry = read_registry(REGISTRY)
        found = cls(registry, tuple(_chosen(registry, names)), hybrid)
        bases = {registry.dense[name].base or name for name in found.names}
        for name in (*found.names, *(base for base in sorted(bases - {*found.names}) if is_built(base))):
            found._changes[name] = Change(watched(name, hybrid))
            found._open[name] = served = found._opened(name)
            served.searcher.search("trial", 1)
        return found

    def __iter__(self) -> Iterator[Served]:
        return iter([self._open[name] for name in self.names])

    def __getitem__(self, name: str) -> Served:
        """A system that is served.

        Raises:
            Problem: it is not.
        """
        if name not in self.names:
            raise Problem(404, "unknown-system", f"{name!r} is not served: take one of {', '.join(self.names)}")
        return self._open[name]

    def beside(self, name: str) -> Served | None:
        """The system that a system's vectors are made from, such as a GNN-encoder's M_de; None: there is none here."""
        return self._open.get(self.registry.dense[name].base)

    async def take_over(self, try_out: Callable[[Searcher], Awaitable[object]]) -> list[str]:
        """Open the systems whose files are new and at rest, and let them answer from now on.

        A system that cannot be opened or tried out, such as one whose files are not all there yet, is looked at again
        next time; the old one goes on answering.

        Args:
            try_out: searches once with what was opened.

        Returns:
            The systems taken over.
        """
        return [name for name, change in self._changes.items() if change.settled() and await self._take(name, try_out)]

    async def _take(self, name: str, try_out: Callable[[Searcher], Awaitable[object]]) -> bool:
        try:
            found = await asyncio.to_thread(self._opened, name)
            version = found.searcher.version
            await asyncio.to_thread(check_ids, version.index, version.passages)
            await try_out(found.searcher)
        except (UserError, OSError, Problem) as error:
            if self._refused.get(name) != str(error):
                log.warning("%s: its index has changed but cannot be taken over yet: %s", name, error)
            self._refused[name] = str(error)
            return False
        self._changes[name].take()
        self._open[name] = found
        self._refused.pop(name, None)
        log.info("%s: took over what is new on disk; %d passages can be found", name, found.searcher.index.passages)
        return True

    def _opened(self, name: str) -> Served:
        searcher = Searcher.open(project.index(name), hybrid=self.hybrid, load=self.encoders.load)
        return Served(
            name=name,
            entry=self.registry.dense[name],
            searcher=replace(searcher, hybrid=None),
            hybrid=searcher if self.hybrid else None,
            table=PassageTable(searcher.version.passages),
            opened=datetime.now(UTC),
        )


def is_built(system: str) -> bool:
    """Whether a system has an index."""
    return (project.index(system) / MANIFEST).is_file()


def _chosen(registry: Registry, names: Sequence[str]) -> list[str]:
    dense = registry.dense
    unknown = [name for name in names if name not in dense and name != EVERY]
    if unknown:
        raise UserError(f"--system is {unknown[0]!r}: must be {EVERY} or one of {', '.join(dense)}")
    built = [name for name in dense if is_built(name)]
    wanted = [name for name in (MAIN, REFERENCE) if name in built]
    if EVERY in names:
        return [*wanted, *(name for name in built if name not in wanted)]
    if not names and not wanted:
        cure = "build it (`bash scripts/reproduce.sh`), or name a --system"
        raise UserError(f"{project.index(MAIN)}: no such index; {cure}")
    return list(dict.fromkeys(names)) or wanted


def example_queries() -> list[str]:
    """Up to six dev queries of readable length, evenly spread over the first rows; none where there is no table."""
    path = project.queries("dev")
    if not path.is_file():
        return []
    first = next(open_table(path, QUERIES).iter_batches(batch_size=2_000, columns=["text"]), None)
    texts = [text for text in (first.column("text").to_pylist() if first is not None else []) if len(text) in FITTING]
    if not texts:
        return []
    places = np.unique(np.linspace(0, len(texts) - 1, SHOWN).round().astype(int))
    return [texts[place] for place in places]
