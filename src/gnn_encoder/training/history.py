"""Learning curves as CSV, for `dvc plots` and for people."""

from pathlib import Path

import polars as pl

from gnn_encoder.core import distributed
from gnn_encoder.training.loop import History

COLUMNS = {"phase": pl.String, "step": pl.Int64, "loss": pl.Float64, "dev_rr10": pl.Float64}


def write_history(path: Path, history: History) -> None:
    """Write one row per optimiser step or evaluation: loss in nats per query, dev_rr10 in 0..1."""
    if distributed.is_first():
        pl.DataFrame(history, schema=COLUMNS).write_csv(path)
