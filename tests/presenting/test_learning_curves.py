"""Where a training had its best weights, by hand."""

from pathlib import Path

from matplotlib.figure import Figure

from gnn_encoder.presenting.learning_curves import paint_training, read_history
from gnn_encoder.training.loop import write_history


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


def test_a_star_marks_what_was_kept(tmp_path: Path) -> None:
    axes = Figure().subplots()
    paint_training(axes, read_history(history(tmp_path / "a.csv", ("gnn", [0.2, 0.9]), ("joint", [0.5, 0.7, 0.6]))))
    (right,) = [other for other in axes.figure.axes if other is not axes]
    (star,) = [line for line in right.lines if line.get_marker() == "*"]
    assert [list(star.get_xdata()), list(star.get_ydata())] == [[1], [70.0]]
