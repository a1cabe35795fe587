"""Equal texts are counted exactly while they fit, and estimated from a part of the hashes beyond."""

import pytest

from gnn_encoder.inspection.duplicates import Duplicates


def count(texts: list[str], limit: int, batch: int) -> Duplicates:
    found = Duplicates(limit)
    for start in range(0, len(texts), batch):
        found.add(texts[start : start + batch])
    return found


def test_exact() -> None:
    found = count(["a", "b", "a", "", "a", "", "c"], limit=7, batch=2)
    assert found.exact and found.count() == 3


def test_nothing() -> None:
    assert Duplicates().count() == 0


@pytest.mark.parametrize("limit", [3000, 20_000])
def test_estimate(limit: int) -> None:
    texts = [f"text {i}" for i in range(20_000)] + [f"text {i}" for i in range(5000)]
    found = count(texts, limit, batch=1000)
    assert not found.exact
    assert found.count() == pytest.approx(5000, rel=0.15)
    assert sum(len(hashes) for hashes in found._kept) <= limit


def test_no_false_alarm_beyond_the_limit() -> None:
    found = count([f"text {i}" for i in range(20_000)], limit=3000, batch=1000)
    assert not found.exact and found.count() == 0
