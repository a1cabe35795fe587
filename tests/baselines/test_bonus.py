"""The prior for labelled passages and what similar logged queries give, against plain loops."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.baselines.bonus import prior, unit
from gnn_encoder.baselines.choice import best_of, plainest_first, read_choice
from gnn_encoder.baselines.logged_neighbours import LabelledQueries, with_neighbours
from gnn_encoder.baselines.rankings import NOTHING, best

RUN = (np.array([[3, 0, 2], [1, 4, -1]]), np.array([[5.0, 4.0, 1.0], [2.0, 1.0, NOTHING]], np.float32))


def test_unit_is_the_mean_standard_deviation_of_a_query() -> None:
    # of 5, 4, 1: sqrt(26 / 9); of 2, 1: 1 / 2
    assert unit(*RUN) == pytest.approx((math.sqrt(26) / 3 + 0.5) / 2)
    assert unit(np.full((2, 3), -1), np.full((2, 3), NOTHING)) == 0.0


@pytest.mark.parametrize(("weight", "expected"), [(0.0, [3, 0, 2]), (2.0, [2, 3, 0]), (-1.0, [0, 3, 2])])
def test_the_prior_moves_labelled_passages(weight: float, expected: list[int]) -> None:
    labelled = np.array([False, False, weight > 0, weight < 0, False])
    found = prior(RUN, labelled, 2.5)
    passages, scores = best(found.passages, found.scores({"weight": weight}), 3)
    assert passages.tolist()[0] == expected
    by_hand = {3: 5.0 + (2.5 * weight if weight < 0 else 0), 0: 4.0, 2: 1.0 + (2.5 * weight if weight > 0 else 0)}
    assert dict(zip(passages[0].tolist(), scores[0].tolist(), strict=True)) == pytest.approx(by_hand)
    assert passages.tolist()[1] == [1, 4, -1]


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.hypot(*a) / math.hypot(*b)


# Logged query 1 has no label; passage 2 is labelled for 0 and 3, passage 5 for 2 alone.
LOGGED = [[1.0, 0.1], [1.0, 0.0], [0.5, 1.0], [2.0, 1.0], [-1.0, 0.3]]
LABELS = {0: [2], 2: [0, 5], 3: [2, 3], 4: [5]}
ASKED = [[3.0, 0.5], [0.2, 1.0]]


def log() -> LabelledQueries:
    pairs = [(query, passage) for query, passages in LABELS.items() for passage in passages]
    schema = {"query": pl.Int32, "passage": pl.Int32}
    return LabelledQueries.of(pl.DataFrame(pairs, schema=schema, orient="row"), np.array(LOGGED, np.float32))


def oracle(count: int, weight: float, temperature: float) -> list[dict[int, float]]:
    results = []
    for row, asked in enumerate(ASKED):
        nearest = sorted(LABELS, key=lambda query: -cosine(asked, LOGGED[query]))
        near = [math.exp(cosine(asked, LOGGED[query]) / temperature) for query in nearest[:count]]
        given: dict[int, float] = {}
        for query, share in zip(nearest, near, strict=False):
            for passage in LABELS[query]:
                given[passage] = given.get(passage, 0.0) + share / sum(near)
        scores = {p: s for p, s in zip(RUN[0][row].tolist(), RUN[1][row].tolist(), strict=True) if p >= 0}
        lowest = min(scores.values())
        # Candidates: the labelled passages of the 3 nearest queries, the most that any setting looks at.
        for query in nearest[:3]:
            for passage in LABELS[query]:
                scores.setdefault(passage, lowest)
        results.append({passage: score + weight * given.get(passage, 0.0) for passage, score in scores.items()})
    return results


@pytest.mark.parametrize(("count", "temperature"), [(1, 1.0), (2, 0.1), (3, 0.5)])
@pytest.mark.parametrize("weight", [0.0, 1.5, -2.0])
def test_similar_logged_queries(tmp_path: Path, count: int, temperature: float, weight: float) -> None:
    log().save(tmp_path / "log")
    given = LabelledQueries.open(tmp_path / "log").look_up(np.array(ASKED, np.float32), 3)
    found = with_neighbours(RUN, given, unit=0.5)
    scores = found.scores({"weight": weight / 0.5, "neighbours": count, "temperature": temperature})
    for query, expected in enumerate(oracle(count, weight, temperature)):
        pairs = zip(found.passages[query].tolist(), scores[query].tolist(), strict=True)
        held = {passage: value for passage, value in pairs if passage >= 0}
        assert held == pytest.approx(expected, abs=1e-6)


def test_a_log_without_queries() -> None:
    empty = LabelledQueries.of(
        pl.DataFrame(schema={"query": pl.Int32, "passage": pl.Int32}), np.empty((0, 2), np.float32)
    )
    found = with_neighbours(RUN, empty.look_up(np.array(ASKED, np.float32), 3), unit=1.0)
    passages, scores = best(found.passages, found.scores({"weight": 3.0, "neighbours": 1, "temperature": 1.0}), 3)
    assert (passages == RUN[0]).all() and (scores == RUN[1]).all()


def test_more_neighbours_than_logged_queries() -> None:
    assert log().look_up(np.array(ASKED, np.float32), 50).place.max() == len(LABELS) - 1


def test_a_missing_log_names_its_stage(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"vectors\.npy: not built yet"):
        LabelledQueries.open(tmp_path)


# --- the choice -------------------------------------------------------------------------------------------------------


def test_the_first_of_equally_good_settings_is_chosen() -> None:
    assert plainest_first([0.5, -0.1, 0.1, 0, 0.1]) == [0, -0.1, 0.1, 0.5]
    values = {0.0: 0.5, -0.1: 0.75, 0.1: 0.75, 0.5: 0.25}
    settings = [{"weight": value} for value in values]
    found = best_of(settings, list(values.values()), measure="RR@10", queries=7)
    assert found.chosen.setting == {"weight": -0.1} and found.chosen.value == 0.75
    assert [(one.setting["weight"], one.value) for one in found.tried] == list(values.items())


@pytest.mark.parametrize("text", ["{", "{}", '{"measure": 3}'])
def test_a_damaged_choice(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match="choice.json: not built yet"):
        read_choice(tmp_path)
    (tmp_path / "choice.json").write_text(text)
    with pytest.raises(
        UserError, match="choice.json: not what its stage writes .*; run the stage that makes it again"
    ) as caught:
        read_choice(tmp_path)
    assert "\n" not in str(caught.value)
