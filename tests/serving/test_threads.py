import os

import pytest

from gnn_encoder.serving import threads
from gnn_encoder.serving.threads import VARIABLES, use_threads


@pytest.mark.parametrize(
    ("wanted", "given", "cores", "expected"),
    [(3, None, 8, "3"), (3, "2", 8, "3"), (None, "2", 8, "2"), (None, None, 8, "4"), (None, None, 1, "1")],
)
def test_threads(
    monkeypatch: pytest.MonkeyPatch, wanted: int | None, given: str | None, cores: int, expected: str
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    if given:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    monkeypatch.setattr(threads, "_cores", lambda: cores)
    use_threads(wanted)
    assert os.environ["OMP_NUM_THREADS"] == expected
    for name in VARIABLES:
        os.environ.pop(name, None)


def test_the_command_line_has_not_loaded_numpy() -> None:
    """Or else it would have read the number of threads already."""
    import subprocess
    import sys

    code = "import sys, gnn_encoder.cli; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
