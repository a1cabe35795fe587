from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from gnn_encoder.core.runs import write_run
from gnn_encoder.presenting.page import rankings
from gnn_encoder.presenting.page.rankings import first_passages


def test_first_passages_of_the_queries_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = pa.chunked_array([[f'p"{row}' for row in range(50)]])  # a quote opens no field in a run
    queries = [f"q{row}" for row in range(40)]
    passages = np.array([[(row + rank) % 50 for rank in range(30)] for row in range(40)])
    passages[7, 2:] = -1
    write_run(tmp_path / "run.trec.gz", queries, pids, passages, np.linspace(1, 0, 30)[None].repeat(40, 0), "any")
    monkeypatch.setattr(rankings, "BLOCK", 500)  # bytes: some twenty lines, so that a query lies in two blocks
    found = first_passages(tmp_path / "run.trec.gz", pl.Series(["q7", "q31", "not asked"]), top=3)
    assert found.rows() == [
        ("q31", 'p"31', 1),
        ("q31", 'p"32', 2),
        ("q31", 'p"33', 3),
        ("q7", 'p"7', 1),
        ("q7", 'p"8', 2),
    ]
