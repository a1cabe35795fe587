"""Streaming a table holds a part of it, however long the table is."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from gnn_encoder.base import tables
from gnn_encoder.base.tables import PASSAGES, count_rows, iterate_texts, write_table

ROWS, PARTS, TEXT = 2_000, 30, "x" * 500


def test_memory_does_not_grow_with_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "passages.parquet"

    def parts() -> Iterator[pa.Table]:
        for part in range(PARTS):
            # Distinct texts: equal ones would be stored once.
            texts = [f"{part} {row} {TEXT}" for row in range(ROWS)]
            yield pa.table([[f"{part}-{row}" for row in range(ROWS)], [""] * ROWS, texts], schema=PASSAGES)

    write_table(path, PASSAGES, parts())
    assert count_rows(path) == ROWS * PARTS
    monkeypatch.setattr(tables, "ROW_GROUP", 500)
    before, held, rows = pa.total_allocated_bytes(), [], 0
    for texts in iterate_texts(path, PASSAGES, ["text"]):
        held.append(pa.total_allocated_bytes() - before)
        rows += len(texts["text"])
    assert rows == ROWS * PARTS
    assert max(held[len(held) // 2 :]) < 1.5 * max(held[: len(held) // 4])
