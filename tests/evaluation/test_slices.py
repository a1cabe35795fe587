"""Slices of literal values, against NumPy and SciPy."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

from gnn_encoder.evaluation.slices import slice_systems

BASE = [0.0, 0.5, 1.0, 0.25, 0.5, 0.0]
SYSTEM = [0.5, 0.5, 1.0, 1.0, 0.25, 1.0]
LABELS = pl.DataFrame(
    {
        "qid": ["q5", "q0", "q1", "q2", "q3", "q4", "other"],
        "value": ["b", "a", "a", "a", "a", "b", "c"],  # named as a column of the values
        "words": [10, 2, 2, None, 2, 2, 2],
    }
)


def values(**systems: list[float]) -> pl.DataFrame:
    rows = [(system, f"q{i}", value) for system, of in systems.items() for i, value in enumerate(of)]
    return pl.DataFrame(rows, schema=["system", "qid", "value"], orient="row")


def test_each_slice() -> None:
    found = slice_systems(values(base=BASE, system=SYSTEM), LABELS, "base")
    assert {name: {label: of.queries for label, of in labels.items()} for name, labels in found.items()} == {
        "value": {"a": 4, "b": 2, "c": 0},
        "words": {"2": 4, "10": 1},  # whole numbers in their order
    }
    rows = {("value", "a"): [0, 1, 2, 3], ("value", "b"): [4, 5], ("words", "2"): [0, 1, 3, 4], ("words", "10"): [5]}
    ps = {}
    for (name, label), chosen in rows.items():
        of = found[name][label]
        base, system = np.array(BASE)[chosen], np.array(SYSTEM)[chosen]
        assert of.means == pytest.approx({"base": base.mean(), "system": system.mean()})
        assert list(of.against) == ["system"] and of.against["system"].baseline == "base"
        tested = of.against["system"]
        assert tested.difference == pytest.approx((system - base).mean())
        ps[name, label] = 1.0
        if len(chosen) > 1:
            differences = system - base
            half = stats.t.ppf(0.975, len(chosen) - 1) * differences.std(ddof=1) / np.sqrt(len(chosen))
            ps[name, label] = 2 * stats.t.sf(
                abs(tested.difference) / (half / stats.t.ppf(0.975, len(chosen) - 1)), len(chosen) - 1
            )
            assert (tested.low, tested.high) == pytest.approx((tested.difference - half, tested.difference + half))
        assert tested.p == pytest.approx(ps[name, label])
    smallest = min(ps, key=lambda key: ps[key])
    assert found[smallest[0]][smallest[1]].against["system"].p_holm == pytest.approx(min(1, 4 * ps[smallest]))


def test_a_single_query_and_none() -> None:
    found = slice_systems(values(base=BASE, system=SYSTEM), LABELS, "base")
    single = found["words"]["10"].against["system"]
    assert (single.difference, single.low, single.high, single.p, single.queries) == (1.0, -1.0, 1.0, 1.0, 1)
    assert (found["value"]["c"].means, found["value"]["c"].against) == ({}, {})
