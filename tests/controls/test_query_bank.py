"""The query bank against plain loops, and against least squares."""

import math
from collections.abc import Iterator

import numpy as np
import pytest

from gnn_encoder.base.matrix import Matrix, array_blocks, of_length_1
from gnn_encoder.controls import query_bank
from gnn_encoder.controls.query_bank import QueryBank, drawn

RNG = np.random.default_rng(5)
PASSAGES, BANK = (of_length_1(RNG.normal(size=(rows, 6)).astype(np.float32) + 0.5) for rows in (11, 40))


def bank_of(passages: Matrix, bank: Matrix, scale: float, rows: int = 4) -> QueryBank:
    def blocks() -> Iterator[tuple[int, Matrix]]:
        return array_blocks(passages, rows)

    return QueryBank.of(blocks, len(passages), bank, scale)


@pytest.mark.parametrize("scale", [0.5, 20.0, 400.0])  # the last overflows without the maximum taken off
def test_what_the_bank_makes_of_a_passage(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = []
    for passage in PASSAGES.astype(np.float64):
        scores = [scale * float(passage @ query) for query in BANK.astype(np.float64)]
        most = max(scores)
        expected.append((most + math.log(sum(math.exp(one - most) for one in scores) / len(scores))) / scale)
    for size in (1, 7, 2**20):
        monkeypatch.setattr(query_bank, "SCORES", size * 4)
        found = bank_of(PASSAGES, BANK, scale)
        np.testing.assert_allclose(found.b, np.array(expected) - np.mean(expected), atol=2e-6)


def test_the_direction_is_ridge_regression_of_1_on_the_bank() -> None:
    """min_u sum_q (1 - q . u)^2 / n + lambda |u|^2, by augmented least squares, scaled to a mean of 1."""
    n, d = BANK.shape
    strength = query_bank.RIDGE * float(np.trace(BANK.T @ BANK)) / n / d
    rows = np.concatenate([BANK / math.sqrt(n), math.sqrt(strength) * np.eye(d)]).astype(np.float64)
    wanted = np.concatenate([np.full(n, 1 / math.sqrt(n)), np.zeros(d)])
    u = np.linalg.lstsq(rows, wanted, rcond=None)[0]
    found = bank_of(PASSAGES, BANK, 20.0)
    np.testing.assert_allclose(found.u, u / (BANK @ u).mean(), rtol=1e-4)
    assert float((BANK @ found.u).mean()) == pytest.approx(1, abs=1e-5)


def test_scores_are_lowered_by_it() -> None:
    found = bank_of(PASSAGES, BANK, 20.0)
    moved = np.concatenate([found.lower(first, block, 0.7) for first, block in array_blocks(PASSAGES, 3)])
    np.testing.assert_allclose(BANK @ moved.T, BANK @ PASSAGES.T - 0.7 * (BANK @ found.u)[:, None] * found.b, atol=1e-5)
    assert found.lower(0, PASSAGES, 0.0) is PASSAGES, "to the bit"


def test_hubs_are_lowered() -> None:
    """All queries have a component in common; the more of it a passage has, the more queries it is near."""
    rng, n, d = np.random.default_rng(2), 200, 16
    meaning, common = rng.normal(size=(n, d)), np.eye(1, d) * 3
    share = rng.uniform(0, 2, size=(n, 1))
    passages = of_length_1((meaning + share * common).astype(np.float32))
    bank, asked = (of_length_1((meaning + rng.normal(size=(n, d)) / 2 + common).astype(np.float32)) for _ in range(2))

    def right(vectors: Matrix) -> float:
        return float((np.argmax(asked @ vectors.T, axis=1) == np.arange(n)).mean())

    found = bank_of(passages, bank, 20.0)
    assert np.corrcoef(found.b, share[:, 0])[0, 1] > 0.4
    assert right(found.lower(0, passages, 0.7)) > right(passages) + 0.05


def test_the_bank_is_a_fixed_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    assert drawn(5, 1).tolist() == [0, 1, 2, 3, 4]
    monkeypatch.setattr(query_bank, "BANK", 20)
    found = drawn(1_000, 1).tolist()
    assert len(set(found)) == 20 and found == sorted(found) == drawn(1_000, 1).tolist() != drawn(1_000, 2).tolist()
