"""What the command line refuses before anything is loaded."""

import os
import re
import subprocess
import sys

import pytest

from gnn_encoder.core.errors import UserError
from gnn_encoder.serving import settings
from gnn_encoder.serving.command import _check_free, _is_loopback
from gnn_encoder.serving.settings import VARIABLES, Limits, use_threads


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"poll": float("nan")}, "poll is nan: must be a number above 0"),
        ({"drain": float("inf")}, "drain is inf: must be a number above 0"),
    ],
)
def test_limits(values: dict[str, float], told: str) -> None:
    with pytest.raises(UserError, match=told):
        Limits(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-name.invalid"])
def test_an_address_of_another_machine(host: str) -> None:
    with pytest.raises(UserError, match=f"{re.escape(host)}:8000: .*; --host must be an address of this machine"):
        _check_free(host, 8000)


def test_loopback_in_any_spelling() -> None:
    assert all(map(_is_loopback, ("localhost", "127.0.0.1", "127.0.0.2", "::1", "0:0:0:0:0:0:0:1")))
    assert not any(map(_is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.org")))


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
    monkeypatch.setattr(settings, "_cores", lambda: cores)
    use_threads(wanted)
    assert os.environ["OMP_NUM_THREADS"] == expected
    for name in VARIABLES:
        os.environ.pop(name, None)


def test_the_command_line_has_not_loaded_numpy() -> None:
    """Or else it would have read the number of threads already."""
    code = "import sys, gnn_encoder.cli; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
