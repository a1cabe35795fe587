"""What ranks anew, by plain loops: similar logged queries, the fusion with BM25, and what dev chooses."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.matrix import Rows, Scores
from gnn_encoder.controls import hybrid
from gnn_encoder.controls.choose import NOTHING, DevQueries, best_on_dev, read_choice, union
from gnn_encoder.controls.hybrid import LabelledQueries, log_settings, unit, with_log
from gnn_encoder.search.exact import top

RUN = (np.array([[3, 0, 2], [1, 4, -1]]), np.array([[5.0, 4.0, 1.0], [2.0, 1.0, NOTHING]], np.float32))

# --- similar logged queries: query 1 has no label; passage 2 is labelled for 0 and 3, passage 5 for 2 alone -----------

LOGGED = [[1.0, 0.1], [1.0, 0.0], [0.5, 1.0], [2.0, 1.0], [-1.0, 0.3]]
LABELS = {0: [2], 2: [0, 5], 3: [2, 3], 4: [5]}
ASKED = np.array([[3.0, 0.5], [0.2, 1.0]], np.float32)
SCHEMA = {"query": pl.Int32, "passage": pl.Int32}


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.hypot(*a) / math.hypot(*b)


def logged() -> LabelledQueries:
    pairs = [(query, passage) for query, passages in LABELS.items() for passage in passages]
    return LabelledQueries.of(pl.DataFrame(pairs, schema=SCHEMA, orient="row"), np.array(LOGGED, np.float32))


def oracle(count: int, weight: float, temperature: float) -> list[dict[int, float]]:
    results = []
    for row, asked in enumerate(ASKED.tolist()):
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
    logged().save(tmp_path / "log")
    near = LabelledQueries.open(tmp_path / "log").look_up(ASKED, 3)
    passages, scores = with_log(RUN, near, 0.5)
    found = as_dicts((passages, scores({"weight": weight / 0.5, "neighbours": count, "temperature": temperature})))
    for one, expected in zip(found, oracle(count, weight, temperature), strict=True):
        assert one == pytest.approx(expected, abs=1e-6)


def test_a_log_without_queries_and_one_of_few() -> None:
    empty = LabelledQueries.of(pl.DataFrame(schema=SCHEMA), np.empty((0, 2), np.float32))
    passages, scores = with_log(RUN, empty.look_up(ASKED, 3), 1.0)
    found = top(passages, scores({"weight": 3.0, "neighbours": 1, "temperature": 1.0}), 3)
    assert all((one == expected).all() for one, expected in zip(found, RUN, strict=True))
    assert logged().look_up(ASKED, 50).place.max() == len(LABELS) - 1


def test_unit_is_the_mean_standard_deviation_of_a_query() -> None:
    # of 5, 4, 1: sqrt(26 / 9); of 2, 1: 1 / 2
    assert unit(*RUN) == pytest.approx((math.sqrt(26) / 3 + 0.5) / 2)
    assert unit(np.full((2, 3), -1), np.full((2, 3), NOTHING)) == 0.0


# --- the fusion with BM25. The first query's passages 7 and 2 are found by both, the second one's by the dense system
# alone. Of the third one BM25 finds a single passage, the last of the dense system's. ---------------------------------

DENSE = (
    np.array([[7, 2, 5], [1, 0, -1], [8, 3, 6]]),
    np.array([[9.0, 6.0, 3.0], [2.0, 1.0, NOTHING], [3.0, 2.0, 1.0]], np.float32),
)
LEXICAL = (
    np.array([[2, 9, 7, 4], [-1, -1, -1, -1], [6, -1, -1, -1]]),
    np.array([[8.0, 4.0, 2.0, 2.0], [NOTHING] * 4, [5.0, *[NOTHING] * 3]], np.float32),
)


def as_dicts(ranking: tuple[Rows, Scores]) -> list[dict[int, float]]:
    return [
        {passage: score for passage, score in zip(rows, scores, strict=True) if passage >= 0}
        for rows, scores in zip(ranking[0].tolist(), ranking[1].tolist(), strict=True)
    ]


def standardised(scores: dict[int, float]) -> dict[int, float]:
    mean = sum(scores.values()) / max(1, len(scores))
    deviation = math.sqrt(sum((score - mean) ** 2 for score in scores.values()) / max(1, len(scores)))
    return {passage: (score - mean) / (deviation or 1) for passage, score in scores.items()}


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_by_standardised_scores(weight: float) -> None:
    passages, scores = hybrid.fused(DENSE, LEXICAL)
    fused = as_dicts((passages, scores({"weight": weight})))
    for one, found, words in zip(fused, as_dicts(DENSE), as_dicts(LEXICAL), strict=True):
        other = {-1: 0.0} if len(words) < 4 else {}  # one of those without a word of the query
        dense, lexical = standardised(found), standardised(words | other)
        lowest = min(dense.values(), default=0.0), min(lexical.values(), default=0.0)
        rest, both = max(1 - weight, 1e-4), found.keys() | words.keys()
        expected = {p: rest * dense.get(p, lowest[0]) + weight * lexical.get(p, lowest[1]) for p in both}
        assert one == pytest.approx(expected, abs=1e-6)


def test_only_dense_and_only_lexical_keep_their_orders() -> None:
    passages, scores = hybrid.fused(DENSE, LEXICAL)
    found, _ = top(passages, scores({"weight": 0.0}), 3)
    assert found.tolist() == [[7, 2, 4], [1, 0, -1], [8, 3, 6]], "4, not found by dense, ties with its last one, 5"
    found, _ = top(passages, scores({"weight": 1.0}), 3)
    assert found.tolist() == [[2, 9, 7], [1, 0, -1], [6, 8, 3]], "among equals the dense scores decide"


@pytest.mark.parametrize(
    ("dense", "lexical", "weight", "expected"),
    [
        ([[3, 4], [0.0, 0.0]], [[4, -1], [1.0, 1.0]], 1.0, {3: -1.0, 4: 1.0}),  # the only one with a rare word
        ([[3, 4], [1.0, 1.0]], [[4, 6], [2.0, 0.0]], 0.5, {3: -0.5, 4: 0.5, 6: -0.5}),  # equal scores add nothing
    ],
)
def test_scores_that_say_little(
    dense: list[list[float]], lexical: list[list[float]], weight: float, expected: dict[int, float]
) -> None:
    sides = [(np.array([one[0]], np.int64), np.array([one[1]], np.float32)) for one in (dense, lexical)]
    passages, scores = hybrid.fused(*sides)
    assert as_dicts((passages, scores({"weight": weight})))[0] == pytest.approx(expected)


# --- what all of them stand on ----------------------------------------------------------------------------------------


def test_union_is_that_of_sets() -> None:
    random = np.random.default_rng(0)
    first, second = (np.stack([random.permutation(30)[:width] for _ in range(50)]) for width in (12, 9))
    first[:, 10:] = -1
    passages, in_first, in_second = union(first, second)
    for query in range(50):
        held = passages[query] >= 0
        assert sorted(passages[query][held]) == sorted({*first[query, :10], *second[query]})
        for passage, a, b in zip(passages[query][held], in_first[query][held], in_second[query][held], strict=True):
            assert (first[query, a] == passage) if passage in first[query] else (a == -1)
            assert (second[query, b] == passage) if passage in second[query] else (b == -1)


@pytest.mark.parametrize("depth", [1, 3, 7, 20])
def test_top_equals_a_full_sort(depth: int) -> None:
    random = np.random.default_rng(1)
    passages = np.stack([random.permutation(40)[:12] for _ in range(30)])
    scores = random.integers(0, 4, size=passages.shape).astype(np.float32)
    passages[:10, 9:], scores[:10, 9:] = -1, NOTHING
    found, values = top(passages, scores, depth)
    for query in range(30):
        held = [(-s, p) for p, s in zip(passages[query].tolist(), scores[query].tolist(), strict=True) if p >= 0]
        expected = sorted(held)[:depth]
        assert found[query][: len(expected)].tolist() == [passage for _, passage in expected]
        assert values[query][: len(expected)].tolist() == [-score for score, _ in expected]
        assert (found[query][len(expected) :] == -1).all()


def test_the_first_of_equally_good_settings_is_chosen() -> None:
    first = {0.0: 50, -0.1: 75, 0.1: 75, 0.5: 25}  # the row of the passage found first, which is the measure's value
    dev = DevQueries(
        rows=np.arange(7), measure="RR@10", depth=1, values=lambda found: [float(one[0, 0]) for one in found]
    )
    found = best_on_dev([{"weight": one} for one in first], (np.array([[row]]) for row in first.values()), dev)
    assert found.setting == {"weight": -0.1} and found.chosen.value == 75 and found.queries == 7
    assert [(one.setting["weight"], one.value) for one in found.tried] == list(first.items())


def test_settings_begin_with_what_changes_least() -> None:
    tried = log_settings()
    assert len(tried) == 11 * (1 + 3 * 4) and tried[0] == {"weight": 0.0, "neighbours": 1, "temperature": 0.02}
    weights = [abs(float(one["weight"])) for one in tried]
    assert weights == sorted(weights) and list(hybrid.BM25_WEIGHTS) == sorted(hybrid.BM25_WEIGHTS)


@pytest.mark.parametrize("text", ["{", "{}", '{"measure": 3}'])
def test_a_damaged_choice_and_a_missing_log(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match="choice.json: not built yet"):
        read_choice(tmp_path)
    (tmp_path / "choice.json").write_text(text)
    with pytest.raises(UserError, match="choice.json: not what its stage writes .*; run the stage") as caught:
        read_choice(tmp_path)
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match=r"vectors\.npy: not built yet"):
        LabelledQueries.open(tmp_path)
