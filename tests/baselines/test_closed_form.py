"""The closed forms: what each member is, and that the values it is chosen by are those of a plain ranking."""

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from gnn_encoder.baselines.closed_form import DEPTH, Form, Known, best_form, whitener
from gnn_encoder.baselines.labelled import Asked, Others

RNG = np.random.default_rng(7)
SIZE = {"passages": 40, "queries": 60, "dev": 30, "d": 8}


def unit(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    found: NDArray[np.float32] = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return found


PASSAGES, QUERIES, DEV = (unit(RNG.normal(size=(SIZE[name], SIZE["d"]))) for name in ("passages", "queries", "dev"))


def pairs(queries: int, passages: int) -> pl.DataFrame:
    """Some labels, several a query, each once."""
    drawn = np.unique(np.stack([RNG.integers(queries, size=150), RNG.integers(passages, size=150)], axis=1), axis=0)
    return pl.DataFrame({"query": drawn[:, 0], "passage": drawn[:, 1]}, schema={"query": pl.Int32, "passage": pl.Int32})


LABELS, RELEVANT = pairs(SIZE["queries"], SIZE["passages"] - 10), pairs(SIZE["dev"], SIZE["passages"])


def reciprocal_rank(moved: NDArray[np.float32], every: int = 1) -> float:
    """The mean RR@10 of each so many-th dev query, by sorting all passages."""
    found = []
    for query in RELEVANT["query"].unique().sort()[::every]:
        relevant = RELEVANT.filter(query=query)["passage"].to_list()
        order = np.argsort(-(moved @ DEV[query]))[:DEPTH]
        ranks = [1 / (1 + place) for place, passage in enumerate(order) if passage in relevant]
        found.append(max(ranks, default=0.0))
    return float(np.mean(found))


def test_ridge_without_a_start_is_least_squares() -> None:
    """With a = 0 and h_p = 0 the added part is each passage's linear classifier of queries.

    The penalty is written as d more rows of the least-squares problem.
    """
    nothing = np.zeros_like(PASSAGES)
    asked = Asked.of(nothing, LABELS, QUERIES)
    labels = np.zeros((SIZE["queries"], len(asked.passages)))
    labels[LABELS["query"].to_numpy(), np.searchsorted(asked.passages, LABELS["passage"].to_numpy())] = 1
    asking = LABELS["query"].unique().to_numpy()
    n, ridge = len(asking), 0.3
    eigenvalue = np.trace(asked.moment) / SIZE["d"]
    penalty = np.sqrt(n * ridge * eigenvalue) * np.eye(SIZE["d"])
    targets = np.concatenate([labels[asking], np.zeros((SIZE["d"], labels.shape[1]))])
    expected = np.linalg.lstsq(np.concatenate([QUERIES[asking], penalty]), targets)[0].T
    whitened = asked.sums @ whitener(asked.moment, ridge)
    found = Form(weight=1 / (n * eigenvalue * (1 + ridge)), power=0.0, ridge=ridge).moved(asked, whitened)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_mean_is_a_member() -> None:
    asked = Asked.of(PASSAGES, LABELS, QUERIES)
    found = Form(weight=0.7, power=1.0, unit_length=True).moved(asked, asked.sums)
    np.testing.assert_allclose(found, asked.plus_mean(0.7, unit_length=True), atol=1e-6)


@pytest.mark.parametrize("unit_length", [False, True])
@pytest.mark.parametrize(
    ("power", "ridge", "weight", "every"), [(1.0, None, 0.4, 1), (0.5, 0.3, -0.8, 2), (0.0, 3.0, 0.2, 3)]
)
def test_values_are_those_of_a_ranking(
    monkeypatch: pytest.MonkeyPatch, power: float, ridge: float | None, weight: float, every: int, unit_length: bool
) -> None:
    asked = Asked.of(PASSAGES, LABELS, QUERIES)
    tried = -(-RELEVANT["query"].n_unique() * len(asked.passages) // every)
    monkeypatch.setattr("gnn_encoder.baselines.closed_form.TRIED", tried)
    monkeypatch.setattr("gnn_encoder.baselines.closed_form.ENTRIES", 100)  # some queries at a time
    others = Others(PASSAGES, asked, DEV, DEPTH)
    whitened = asked.sums @ whitener(asked.moment, ridge)
    form = Form(weight=weight, power=power, ridge=ridge, unit_length=unit_length)
    (value,) = Known.of(asked, others, RELEVANT).values(asked, whitened, [form])
    moved = asked.place(0, PASSAGES.copy(), form.moved(asked, whitened))
    assert value == pytest.approx(reciprocal_rank(moved, every), abs=1e-9)


def test_the_best_is_found_and_is_not_below_the_passages_as_they_are() -> None:
    asked = Asked.of(PASSAGES, LABELS, QUERIES)
    others = Others(PASSAGES, asked, DEV, DEPTH)
    found = best_form(asked, others, RELEVANT, unit_length=True)
    moved = asked.place(0, PASSAGES.copy(), found.moved(asked))
    assert found.value == pytest.approx(reciprocal_rank(moved), abs=1e-9)
    assert found.value >= reciprocal_rank(PASSAGES)
