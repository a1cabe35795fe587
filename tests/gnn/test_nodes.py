"""Which queries are in the graph."""

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from gnn_encoder.base.tables import QUERIES, write_table
from gnn_encoder.gnn.graph import NODES, draw, write_nodes


def table(path: Path, prefix: str, count: int) -> Path:
    names = [f"{prefix}{i}" for i in range(count)]
    batches = [pa.record_batch([[name], [f"text of {name}"], [[]]], QUERIES) for name in names]
    write_table(path, QUERIES, batches)  # a row group each: rows are taken across batches
    return path


@pytest.mark.parametrize(("rows", "own"), [([], []), ([0, 3], ["u0", "u3"])])
def test_nodes_are_written_in_order(tmp_path: Path, rows: list[int], own: list[str]) -> None:
    training, unlabelled = table(tmp_path / "train.parquet", "t", 2), table(tmp_path / "unlabelled.parquet", "u", 4)
    write_nodes(tmp_path, training=training, unlabelled=unlabelled, rows=np.array(rows, dtype=np.int64))
    assert pl.read_parquet(tmp_path / NODES)["qid"].to_list() == ["t0", "t1", *own]


def test_draw() -> None:
    assert draw(4, None, 0).tolist() == draw(4, 9, 0).tolist() == [0, 1, 2, 3]
    drawn = draw(100, 10, 5)
    assert len(set(drawn.tolist())) == 10 and (np.diff(drawn) > 0).all() and drawn.max() < 100
    assert drawn.tolist() == draw(100, 10, 5).tolist() != draw(100, 10, 6).tolist()
