"""Rows by id, across row groups, with a memory of bounded size."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gnn_encoder.core.records import PASSAGES
from gnn_encoder.serving import passages
from gnn_encoder.serving.passages import PassageTable


def test_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [[f"p{row}" for row in range(10)], [""] * 10, ["text"] * 10]
    pq.write_table(pa.table(columns, schema=PASSAGES), tmp_path / "passages.parquet", row_group_size=3)
    monkeypatch.setattr(passages, "REMEMBERED", 4)
    table = PassageTable(tmp_path / "passages.parquet")
    assert [table.row(f"p{row}") for row in range(10)] == list(range(10))
    assert table.row("p10") is None and table.row("") is None
    assert list(table._rows) == ["p6", "p7", "p8", "p9"]  # and no id of whoever asks for what is not there
    assert table.row("p0") == 0
