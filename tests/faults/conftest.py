"""What was tried, in figures: `scripts/test.sh tests/faults --long` prints them as a table."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

Tell = Callable[..., None]


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Tell:
    """`tell("SIGKILL", wrong=0, lost=1.5)`: it was tried, so many artifacts are wrong, so many seconds are lost."""

    def note(kind: str, *, wrong: int = 0, lost: float = 0.0) -> None:
        record_property("fault", (kind, wrong, lost))
        assert not wrong, f"{kind}: {wrong} artifacts are not as undisturbed"

    return note


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Add the figures of all faults up."""
    found = defaultdict(lambda: [0, 0, 0.0])
    for report in (one for many in terminalreporter.stats.values() for one in many):
        for name, value in getattr(report, "user_properties", []) if getattr(report, "when", "") == "call" else []:
            if name == "fault":
                kind, wrong, lost = value
                found[kind] = [a + b for a, b in zip(found[kind], (1, wrong, lost), strict=True)]
    if found:
        terminalreporter.section("faults")
        terminalreporter.write_line(f"{'fault':40} {'tried':>6} {'wrong artifacts':>16} {'minutes lost':>13}")
    for kind, (tried, wrong, lost) in sorted(found.items()):
        terminalreporter.write_line(f"{kind:40} {tried:6} {wrong:16} {lost / 60:13.1f}")
