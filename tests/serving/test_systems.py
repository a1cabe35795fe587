"""A change counts once it is at rest; rows are found by id, across row groups, with a memory of bounded size."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gnn_encoder.core.records import PASSAGES
from gnn_encoder.serving import systems
from gnn_encoder.serving.systems import Change, PassageTable


def test_a_change_is_told_when_it_rests_and_until_it_is_taken(tmp_path: Path) -> None:
    manifest, index = tmp_path / "manifest.json", tmp_path / "index"
    manifest.write_text("1")
    change = Change([manifest, index])
    assert not change.settled()
    index.write_text("growing")
    assert not change.settled()  # the first look at something new
    index.write_text("growing still")
    assert not change.settled()
    assert change.settled() and change.settled()
    change.take()
    assert not change.settled()
    manifest.unlink()
    assert not change.settled()
    assert change.settled()


def test_a_file_of_the_same_size_and_time_in_its_place(tmp_path: Path) -> None:
    path, other = tmp_path / "manifest.json", tmp_path / "other"
    path.write_text("1")
    change = Change([path])
    other.write_text("2")
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.replace(path)
    change.settled()
    assert change.settled()


def test_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [[f"p{row}" for row in range(10)], [""] * 10, ["text"] * 10]
    pq.write_table(pa.table(columns, schema=PASSAGES), tmp_path / "passages.parquet", row_group_size=3)
    monkeypatch.setattr(systems, "REMEMBERED", 4)
    table = PassageTable(tmp_path / "passages.parquet")
    assert [table.row(f"p{row}") for row in range(10)] == list(range(10))
    assert table.row("p10") is None and table.row("") is None
    assert list(table._rows) == ["p6", "p7", "p8", "p9"]  # and no id of whoever asks for what is not there
    assert table.row("p0") == 0
