"""What the command line refuses before anything is loaded."""

import re

import pytest

from gnn_encoder.core.errors import UserError
from gnn_encoder.serving.command import _check_free, _is_loopback
from gnn_encoder.serving.settings import Limits


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"poll": float("nan")}, "poll is nan: must be a number above 0"),
        ({"drain": float("inf")}, "drain is inf: must be a number above 0"),
        ({"waiting": 100}, "--max-inputs is 256: must be at most --max-waiting, 100, .*; lower it, or let more wait"),
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
