import io
import sys

import pytest

from gnn_encoder.base import distributed as progress


@pytest.mark.parametrize(("every", "lines"), [(0.0, ["read: 1 of 2 rows, 0 s", "read: 2 of 2 rows, 0 s"]), (9, [])])
def test_without_a_terminal_there_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, every: float, lines: list[str]
) -> None:
    err = io.StringIO()
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(progress.tqdm, "EVERY", every)
    with progress.tqdm(total=2, desc="read", unit=" rows", disable=None) as bar:
        for _ in range(2):
            bar.update()
            bar.refresh()
    assert list(dict.fromkeys(err.getvalue().splitlines()[1:] if lines else err.getvalue().splitlines())) == lines
