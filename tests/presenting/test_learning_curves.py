"""Where each training had its best weights, by hand."""

from pathlib import Path

from matplotlib.figure import Figure

from gnn_encoder.presenting.learning_curves import kept_table, paint_training, read_history
from gnn_encoder.training.history import write_history


def history(path: Path, *phases: tuple[str, list[float]]) -> Path:
    """Each phase is scored before its first step and after each."""
    rows = [
        {"phase": phase, "step": step, "loss": None if is_score else 1.0, "dev_rr10": score if is_score else None}
        for phase, scores in phases
        for step, score in enumerate(scores)
        for is_score in ((False, True) if step else (True,))
    ]
    write_history(path, rows)
    return path


def test_a_row_a_phase(tmp_path: Path) -> None:
    two = history(tmp_path / "two.csv", ("gnn", [0.2, 0.25, 0.25]), ("joint", [0.25, 0.24]))
    one = history(tmp_path / "one.csv", ("contrastive", [0.1, 0.05, 0.3]))
    write_history(tmp_path / "never.csv", [{"phase": "generator", "step": 1, "loss": 2.0, "dev_rr10": None}])
    table = kept_table({"mgt/a": two, "b": one, "generator": tmp_path / "never.csv"})
    assert table is not None and table.rows == [
        ["mgt/a, gnn", "20.0", "25.0", "1 of 2"],
        ["mgt/a, joint", "25.0", "25.0", "none was better than the start"],
        ["b, contrastive", "10.0", "30.0", "2 of 2"],
    ]
    assert kept_table({"generator": tmp_path / "never.csv"}) is None


def test_a_star_marks_what_was_kept(tmp_path: Path) -> None:
    axes = Figure().subplots()
    paint_training(axes, read_history(history(tmp_path / "a.csv", ("gnn", [0.2, 0.9]), ("joint", [0.5, 0.7, 0.6]))))
    (right,) = [other for other in axes.figure.axes if other is not axes]
    (star,) = [line for line in right.lines if line.get_marker() == "*"]
    assert [list(star.get_xdata()), list(star.get_ydata())] == [[1], [70.0]]
