"""How numbers are written in the report."""

from gnn_encoder.evaluation.significance import Comparison
from gnn_encoder.report.results import SIGNIFICANT


def points(value: float) -> str:
    """A measure of 0..1 in points of 100."""
    return f"{100 * value:.1f}"


def p_value(p: float) -> str:
    """One digit below 0.01, two below 0.1: which side of 0.05 it is on is seen."""
    return f"{p:.1g}" if p < 0.01 else f"{p:.2g}" if p < 0.1 else f"{p:.2f}"


def difference(found: Comparison) -> str:
    """Mean difference in points with its 95% interval."""
    return f"{100 * found.difference:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"


def verdict(found: Comparison) -> str:
    """better, worse or alike: whether Holm's corrected p is below 0.05."""
    if found.p_holm >= SIGNIFICANT:
        return "alike"
    return "better" if found.difference > 0 else "worse"


def count(number: int | float) -> str:
    """Thousands apart; whole numbers without a fraction."""
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,}"


def size(number: int | None) -> str:
    """Bytes in a unit of 1024s."""
    if number is None:
        return "–"
    value, units = float(number), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.1f} {units[0]}"


def seconds(number: float | None, *, at_least: bool = False) -> str:
    """A time, in minutes where it is long."""
    if number is None:
        return "–"
    return ("≥ " if at_least else "") + (f"{number:.1f} s" if number < 120 else f"{number / 60:.1f} min")
