"""How numbers are written; each kind of number has one format."""

from collections.abc import Mapping

from gnn_encoder.base.errors import without_controls
from gnn_encoder.evaluation.significance import Comparison

SIGNIFICANT = 0.05
NOTHING = "–"  # where there is no number
BETTER, WORSE = "▲", "▼"  # the page colours cells that begin with one of them


def points(value: float) -> str:
    """A measure of 0..1 in points of 100."""
    return f"{100 * value:.1f}"


def point_range(low: float, high: float) -> str:
    """An interval of a measure, or its spread, in points."""
    return f"{points(low)} to {points(high)}"


def p_value(p: float) -> str:
    """A p-value with as many digits as show on which side of 0.05 it is: one below 0.01, two or more below 0.1."""
    if p == 0:
        return "< 1e-300"  # too small for a float
    if p >= 0.1:
        return f"{p:.2f}"
    digits = 1 if p < 0.01 else 2
    while p < SIGNIFICANT <= float(f"{p:.{digits}g}"):
        digits += 1
    return f"{p:.{digits}g}"


def difference(found: Comparison) -> str:
    """Mean difference in points with its 95% interval."""
    return f"{100 * found.difference:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"


def comparison(found: Comparison | None) -> str:
    """Two lines, the difference and its p after Holm's correction, with a mark if it is significant."""
    if found is None:
        return NOTHING
    mark = "" if found.p_holm >= SIGNIFICANT else f"{BETTER} " if found.difference > 0 else f"{WORSE} "
    p = f"p = {p_value(found.p_holm)}".replace("= <", "<")
    return f"{mark}{difference(found)}\n{p}"


def count(number: int | float) -> str:
    """A number with separated thousands, and without a fraction if it is whole."""
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,}"


def named_counts(found: Mapping[str, int]) -> str:
    """Counts by the names of what they count."""
    return ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in found.items())


def counted(number: int, name: str) -> str:
    """A number of things, whose name gets an s where there is not one of them."""
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def size(number: int | None) -> str:
    """A number of bytes, in B, KiB, MiB, GiB or TiB."""
    if number is None:
        return NOTHING
    value, units = float(number), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.1f} {units[0]}"


def seconds(number: float | None, *, at_least: bool = False) -> str:
    """A time in seconds, or in minutes from 120 seconds on."""
    if number is None:
        return NOTHING
    return ("≥ " if at_least else "") + (f"{number:.1f} s" if number < 120 else f"{number / 60:.1f} min")


def shortened(text: str, length: int) -> str:
    """A text on one line of a terminal, cut after a whole word."""
    text = without_controls(text)
    return text if len(text) <= length else f"{text[:length].rsplit(' ', 1)[0]} …"
