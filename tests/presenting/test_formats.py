import pytest

from gnn_encoder.evaluation.significance import Comparison
from gnn_encoder.presenting.formats import comparison, p_value, shortened


def compared(difference: float, low: float, high: float, p: float) -> Comparison:
    return Comparison(baseline="dual_encoder", difference=difference, low=low, high=high, p=p, p_holm=p, queries=9)


@pytest.mark.parametrize(
    ("p", "text"),
    [
        *((1.0, "1.00"), (0.123, "0.12"), (0.042, "0.042"), (0.0042, "0.004"), (2.4e-13, "2e-13"), (0.0, "< 1e-300")),
        *((0.0496, "0.0496"), (0.04999, "0.04999"), (0.05, "0.05"), (0.0504, "0.05")),
    ],
)
def test_p_is_readable(p: float, text: str) -> None:
    assert p_value(p) == text
    sign = "" if p == 0 else "= "
    assert comparison(compared(-0.01, -0.02, 0.0, p)).splitlines()[1] == f"p {sign}{text}"


@pytest.mark.parametrize(("gain", "p", "mark"), [(0.02, 0.04, "▲ "), (-0.02, 0.04, "▼ "), (0.02, 0.05, "")])
def test_significant_differences_are_marked(gain: float, p: float, mark: str) -> None:
    assert comparison(compared(gain, gain - 0.01, gain + 0.01, p)).startswith(f"{mark}{100 * gain:+.1f} [")


def test_no_comparison() -> None:
    assert comparison(None) == "–"


def test_a_text_is_cut_after_a_word() -> None:
    assert shortened("one two\n three", 100) == "one two three"
    assert shortened("one two three", 9) == "one two …"
