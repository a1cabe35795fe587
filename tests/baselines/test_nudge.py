"""NUDGE by hand, and against the package of its authors."""

import numpy as np
import polars as pl
import pytest

from gnn_encoder.base.matrix import Matrix
from gnn_encoder.baselines.labelled import Asked
from gnn_encoder.baselines.nudge import GAMMAS, best_gamma_m, nudge_m, nudge_n

PAIR = {"query": pl.Int32, "passage": pl.Int32}
D = 12


def unit(rows: np.ndarray) -> Matrix:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def pairs_of(lists: list[list[int]]) -> pl.DataFrame:
    rows = [(query, passage) for query, passages in enumerate(lists) for passage in passages]
    return pl.DataFrame(rows, schema=PAIR, orient="row")


def test_directions_by_hand() -> None:
    passages = np.array([[1, 0], [0, 1], [0.6, 0.8]], np.float32)
    queries = np.array([[0, 1], [0, 2], [0, -1]], np.float32)
    asked = Asked.of(passages, pairs_of([[0], [0], [1]]), queries)
    assert asked.passages.tolist() == [0, 1] and asked.counts.tolist() == [2, 1]
    assert asked.sums.tolist() == [[0, 3], [0, -1]]
    np.testing.assert_allclose(nudge_m(asked, 0.5), [[1, 0.5], [0, 0.5]], atol=1e-7)
    # Passage 0 turns until its squared distance is 0.4: (1 - 0.2) h + sqrt(0.4 - 0.04) z. Queries point away from 1.
    np.testing.assert_allclose(nudge_n(asked, 0.4), [[0.8, 0.6], [0, 1]], atol=1e-6)
    assert nudge_n(asked, 0.0) is asked.vectors


def test_the_gamma_that_puts_most_first_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnn_encoder.baselines.nudge.ENTRIES", 1)  # one pair at a time
    passages = np.array([[1, 0], [0, 1]], np.float32)
    asked = Asked.of(passages, pairs_of([[1]]), np.array([[1, 0]], np.float32))  # passage 1 moves along (1, 0)
    dev = np.array([[1, 0.5], [2, -0.5]], np.float32)
    # Query 0 finds passage 1 where 0.5 + gamma >= 1; query 1 does where -0.5 + 2 gamma >= 2.
    assert best_gamma_m(asked, passages, dev, pairs_of([[1], []])) == pytest.approx(0.5)
    assert best_gamma_m(asked, passages, dev, pairs_of([[1], [1]])) == pytest.approx(1.25)
    assert best_gamma_m(asked, passages, dev, pairs_of([[1], [0]])) == pytest.approx(0.5)
    assert best_gamma_m(asked, passages, dev, pairs_of([[], [0]])) == 0


@pytest.mark.parametrize("seed", range(4))
def test_against_the_authors_package(seed: int) -> None:
    nudge = pytest.importorskip("nudge")
    draw = np.random.default_rng(seed)
    passages, queries, dev = (unit(draw.normal(size=(n, D))) for n in (60, 80, 50))
    labels, dev_labels = (
        [draw.choice(40, size=draw.integers(1, 3), replace=False).tolist() for _ in range(n)] for n in (80, 50)
    )
    train, held = {"q_embs": queries, "q_ans_indx": labels}, {"q_embs": dev, "q_ans_indx": dev_labels}
    asked, dev_pairs = Asked.of(passages, pairs_of(labels), queries), pairs_of(dev_labels)
    expected = nudge.NUDGEM(device="cpu").finetune_embeddings(passages, train, held)
    moved = passages.copy()
    moved[asked.passages] = nudge_m(asked, best_gamma_m(asked, passages, dev, dev_pairs))
    np.testing.assert_allclose(moved, expected, atol=2e-5)
    for gamma in GAMMAS[1::6]:
        expected = nudge.NUDGEN(device="cpu").finetune_embeddings(passages, train, held, gamma=gamma)
        moved[asked.passages] = nudge_n(asked, gamma)
        np.testing.assert_allclose(moved, expected, atol=2e-5)
