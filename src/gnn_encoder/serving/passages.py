"""Single passages by their id, without an index of ids in memory: what was found lately is remembered."""

import threading
from collections import OrderedDict
from pathlib import Path

import pyarrow.compute as pc

from gnn_encoder.core.records import PASSAGES, open_table

REMEMBERED = 65_536  # rows of passages that were asked for


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
