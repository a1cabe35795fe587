"""Single passages by their id, without an index of ids in memory: what was found lately is remembered."""

import threading
from collections import OrderedDict
from pathlib import Path

import pyarrow.compute as pc

from gnn_encoder.core.records import PASSAGES, open_table

REMEMBERED = 65_536  # rows of passages that were asked for or found


class PassageTable:
    """Finds rows of a passages table by id. Safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        self._file = open_table(path, PASSAGES)
        self._reading = threading.Lock()
        self._rows: OrderedDict[str, int | None] = OrderedDict()

    def row(self, pid: str) -> int | None:
        """The row of a passage, or None. Reads the column of ids, row group by row group, unless it is remembered."""
        with self._reading:
            if pid not in self._rows:
                self._rows[pid] = self._scan(pid)
                if len(self._rows) > REMEMBERED:
                    self._rows.popitem(last=False)
            self._rows.move_to_end(pid)
            return self._rows[pid]

    def _scan(self, pid: str) -> int | None:
        first = 0
        for group in range(self._file.metadata.num_row_groups):
            column = self._file.read_row_group(group, columns=["pid"]).column("pid")
            place = pc.index(column, pid).as_py()
            if place >= 0:
                return first + int(place)
            first += len(column)
        return None
