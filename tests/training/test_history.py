"""The learning curve as CSV."""

from pathlib import Path

from gnn_encoder.training.history import write_history


def test_by_hand(tmp_path: Path) -> None:
    rows = [
        {"phase": "gnn", "step": 0, "loss": None, "dev_rr10": 0.25},
        {"phase": "gnn", "step": 1, "loss": 1.5, "dev_rr10": None},
    ]
    write_history(tmp_path / "history.csv", rows)
    assert (tmp_path / "history.csv").read_text() == "phase,step,loss,dev_rr10\ngnn,0,,0.25\ngnn,1,1.5,\n"
    write_history(tmp_path / "empty.csv", [])
    assert (tmp_path / "empty.csv").read_text() == "phase,step,loss,dev_rr10\n"
