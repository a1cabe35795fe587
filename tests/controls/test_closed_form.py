"""The closed forms: what each is, and that the values it is chosen by are those of a plain ranking."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from gnn_encoder.base.judgements import NO_PAIRS, Identical
from gnn_encoder.base.matrix import Matrix, of_length_1
from gnn_encoder.controls import closed_form
from gnn_encoder.controls.closed_form import DEPTH, METHODS, ClosedForm, LabelledPassages, Unmoved, settings_of
from gnn_encoder.controls.hybrid import BM25_WEIGHTS, LabelledQueries, fused, log_settings, with_log
from gnn_encoder.search.exact import block_top_k, top

from ..texts import pairs

RNG = np.random.default_rng(7)
D, SIZE = 8, {"passages": 40, "queries": 60, "dev": 30}


def drawn(queries: int, passages: int) -> pl.DataFrame:
    """Some labels, several a query, each once."""
    rows = np.unique(np.stack([RNG.integers(queries, size=150), RNG.integers(passages, size=150)], axis=1), axis=0)
    return pairs(*rows.tolist())


PASSAGES, QUERIES, DEV = (of_length_1(RNG.normal(size=(rows, D))) for rows in SIZE.values())
LABELS, RELEVANT = drawn(SIZE["queries"], SIZE["passages"] - 10), drawn(SIZE["dev"], SIZE["passages"])
LABELLED = LabelledPassages.of(PASSAGES, LABELS, QUERIES)
OWN = drawn(SIZE["dev"], SIZE["passages"]).join(
    RELEVANT, on=["query", "passage"], how="anti"
)  # they are these passages


def by_query(pairs: pl.DataFrame) -> dict[int, list[int]]:
    return dict(pairs.sort("query").group_by("query", maintain_order=True).agg("passage").iter_rows())


RELEVANT_TO = by_query(RELEVANT)


def member(labelled: LabelledPassages, ridge: float | None, **of: Any) -> ClosedForm:
    return ClosedForm(whitener=closed_form.whitener(labelled.moment, ridge), ridge=ridge, **of)


def reciprocal_rank(moved: Matrix, every: int = 1, own: pl.DataFrame = NO_PAIRS) -> float:
    """The mean RR@10 of each so many-th dev query, by sorting all passages but those that it is itself."""
    found, itself = [], by_query(own)
    for query, relevant in [*RELEVANT_TO.items()][::every]:
        scores = moved @ DEV[query]
        scores[itself.get(query, [])] = -np.inf
        order = np.argsort(-scores)[:DEPTH]
        ranks = [1 / (1 + place) for place, passage in enumerate(order) if passage in relevant]
        found.append(max(ranks, default=0.0))
    return float(np.mean(found))


def test_by_hand() -> None:
    """[1, 0] + 0.5 * mean of [0, 1] and [0, 3] is [1, 1]; of length 1: both 1 / sqrt(2)."""
    queries = np.array([[0, 1], [0, 3]], np.float32)
    found = LabelledPassages.of(np.array([[0, 1], [1, 0]], np.float32), pairs((0, 1), (1, 1)), queries)
    for unit_length, moved in ((False, [[1, 1]]), (True, [[0.5**0.5, 0.5**0.5]])):
        mean = member(found, None, weight=0.5, power=1.0, unit_length=unit_length)
        np.testing.assert_allclose(mean.moved(found), moved, rtol=1e-6)
    passages = np.array([[1, 0], [0, 1], [0.6, 0.8]], np.float32)
    found = LabelledPassages.of(passages, pairs((0, 0), (1, 0), (2, 1)), np.float32([[0, 1], [0, 2], [0, -1]]))
    assert found.passages.tolist() == [0, 1] and found.counts.tolist() == [2, 1]
    assert found.sums.tolist() == [[0, 3], [0, -1]]
    # Passage 0 turns until its squared distance is 0.4: (1 - 0.2) h + sqrt(0.4 - 0.04) z. Queries point away from 1.
    np.testing.assert_allclose(found.nudged(0.4), [[0.8, 0.6], [0, 1]], atol=1e-6)


@pytest.mark.parametrize("gamma", closed_form.GAMMAS[1::6])
def test_nudge_against_the_authors_package(gamma: float) -> None:
    nudge = pytest.importorskip("nudge")
    asking = LABELS["query"].unique().sort().to_list()
    lists = [LABELS.filter(query=query)["passage"].to_list() for query in asking]
    of = {"q_embs": QUERIES[asking], "q_ans_indx": lists}
    expected = nudge.NUDGEN(device="cpu").finetune_embeddings(PASSAGES, of, of, gamma=gamma)
    np.testing.assert_allclose(LABELLED.place(0, PASSAGES.copy(), LABELLED.nudged(gamma)), expected, atol=2e-5)


def test_ridge_without_a_start_is_least_squares() -> None:
    """With a = 0 and h_p = 0 the added part is each passage's linear classifier of queries.

    The penalty is written as d more rows of the least-squares problem.
    """
    found = LabelledPassages.of(np.zeros_like(PASSAGES), LABELS, QUERIES)
    labels = np.zeros((SIZE["queries"], len(found.passages)))
    labels[LABELS["query"].to_numpy(), np.searchsorted(found.passages, LABELS["passage"].to_numpy())] = 1
    asking = LABELS["query"].unique().to_numpy()
    n, ridge = len(asking), 0.3
    eigenvalue = np.trace(found.moment) / D
    penalty = np.sqrt(n * ridge * eigenvalue) * np.eye(D)
    targets = np.concatenate([labels[asking], np.zeros((D, labels.shape[1]))])
    expected = np.linalg.lstsq(np.concatenate([QUERIES[asking], penalty]), targets)[0].T
    form = member(found, ridge, weight=1 / (n * eigenvalue * (1 + ridge)), power=0.0)
    np.testing.assert_allclose(form.moved(found), expected, atol=1e-5)


@pytest.mark.parametrize("unit_length", [False, True])
@pytest.mark.parametrize("own", [NO_PAIRS, OWN], ids=["no own", "own"])
def test_values_are_those_of_a_ranking(monkeypatch: pytest.MonkeyPatch, own: pl.DataFrame, unit_length: bool) -> None:
    monkeypatch.setattr(closed_form, "ENTRIES", 100)  # some queries at a time
    unmoved = Unmoved(PASSAGES, LABELLED, DEV, DEPTH, Identical(own=own))
    of = ((1.0, None, 0.4), (1.0, None, 1.0), (0.5, 0.3, -0.8), (0.0, 3.0, 0.2))
    forms = [member(LABELLED, ridge, weight=w, power=power, unit_length=unit_length) for power, ridge, w in of]
    values = closed_form.dev_values(LABELLED, unmoved, RELEVANT, forms)
    every = [LABELLED.place(0, PASSAGES.copy(), form.moved(LABELLED)) for form in forms]
    assert values.tolist() == pytest.approx([reciprocal_rank(moved, own=own) for moved in every], abs=1e-9)


@pytest.mark.parametrize("every", [1, 3])
def test_the_best_is_found(monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    """Among all that are tried, h_p included. Of many labels some dev queries try all, and all of them the best."""
    monkeypatch.setattr(closed_form, "TRIED", -(-RELEVANT["query"].n_unique() * len(LABELLED.passages) // every))
    found = closed_form.best_form(LABELLED, Unmoved(PASSAGES, LABELLED, DEV, DEPTH), RELEVANT, unit_length=True)
    forms = list(closed_form.members(LABELLED, unit_length=True))
    tried = [LABELLED.place(0, PASSAGES.copy(), one.moved(LABELLED)) for one in forms]
    first = sorted(range(len(forms)), key=lambda one: -reciprocal_rank(tried[one], every))[: closed_form.FINAL]
    expected = max(sorted(first) if every > 1 else range(len(forms)), key=lambda one: reciprocal_rank(tried[one]))
    assert (
        len(forms) == 1 + 4 * 4 * 2 * 8
        and all(one.weight >= 0 for one in forms)
        and found.setting == forms[expected].setting
        and expected > 0
    )


@pytest.mark.parametrize("unit_length", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_rankings_are_those_of_the_moved_matrix(
    method: str, unit_length: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Block by block, against one search of all; passages without a label stay to the bit, with setting 0 all."""
    monkeypatch.setattr("gnn_encoder.base.matrix.READ_ROWS", 7)
    unmoved = Unmoved(PASSAGES, LABELLED, DEV, 5)
    tried, moved = settings_of(method, LABELLED, unmoved, RELEVANT, unit_length=unit_length)
    assert moved(tried[0]) is LABELLED.vectors
    for one, expected in zip(unmoved.rank(moved(tried[0])), block_top_k(PASSAGES, DEV, 5), strict=True):
        np.testing.assert_array_equal(one, expected)
    for setting in (tried[0], tried[-1]):
        vectors = moved(setting)
        parts = [LABELLED.place(first, PASSAGES[first : first + 9].copy(), vectors) for first in range(0, 40, 9)]
        whole = np.concatenate(parts)
        assert unmoved.rank(vectors)[0].tolist() == np.argsort(-(DEV @ whole.T), axis=1)[:, :5].tolist()
        others = np.setdiff1d(np.arange(SIZE["passages"]), LABELLED.passages)
        assert (whole[others] == PASSAGES[others]).all()


@pytest.mark.parametrize("control", ["log", "hybrid"])
def test_setting_0_leaves_the_ranking_to_the_bit(control: str) -> None:
    """Of every control the first setting, which wins among equals, is what its base finds."""
    run = block_top_k(PASSAGES, DEV, DEPTH)
    if control == "log":
        passages, scores = with_log(run, LabelledQueries.of(LABELS, QUERIES).look_up(DEV, 10), 0.1)
        found = top(passages, scores(log_settings()[0]), DEPTH)
    else:  # BM25 finds others; scores are standardised, which keeps their order
        passages, scores = fused(run, block_top_k(PASSAGES, -DEV, DEPTH))
        found = top(passages, scores({"weight": BM25_WEIGHTS[0]}), DEPTH)
    # beyond the last passage stand others that count as this one
    np.testing.assert_array_equal(found[0][:, :-1], run[0][:, :-1])
    assert control == "hybrid" or (found[1][:, :-1] == run[1][:, :-1]).all()
