"""Fusing two rankings, against plain loops over dictionaries."""

import math

import numpy as np
import pytest

from gnn_encoder.base.matrix import Rows, Scores
from gnn_encoder.baselines.hybrid import RANKS, SCORES, Fusion, settings
from gnn_encoder.baselines.rankings import NOTHING, best, union
from gnn_encoder.pipeline.params import Params

# Three queries. The first one's passages 7 and 2 are found by both, the second one's by the dense system alone. Of the
# third one BM25 finds a single passage, the last of the dense system's.
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


def by_scores(weight: float) -> list[dict[int, float]]:
    expected = []
    for found, words in zip(as_dicts(DENSE), as_dicts(LEXICAL), strict=True):
        other = {-1: 0.0} if len(words) < 4 else {}  # one of those without a word of the query
        dense, lexical = standardised(found), standardised(words | other)
        lowest = min(dense.values(), default=0.0), min(lexical.values(), default=0.0)
        rest, both = max(1 - weight, 1e-4), found.keys() | words.keys()
        expected.append({p: rest * dense.get(p, lowest[0]) + weight * lexical.get(p, lowest[1]) for p in both})
    return expected


def by_ranks(k: int) -> list[dict[int, float]]:
    expected = []
    for dense, lexical in zip(as_dicts(DENSE), as_dicts(LEXICAL), strict=True):
        found: dict[int, float] = {}
        for ranking in (dense, lexical):
            for rank, passage in enumerate(ranking, 1):
                found[passage] = found.get(passage, 0.0) + 1 / (k + rank)
        expected.append(found)
    return expected


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_by_standardised_scores(weight: float) -> None:
    fused = Fusion.of(DENSE, LEXICAL)
    found = as_dicts((fused.passages, fused.scores({"by": SCORES, "weight": weight})))
    for one, expected in zip(found, by_scores(weight), strict=True):
        assert one == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("k", [1, 60])
def test_by_reciprocal_ranks(k: int) -> None:
    fused = Fusion.of(DENSE, LEXICAL)
    found = as_dicts((fused.passages, fused.scores({"by": RANKS, "k": k})))
    for one, expected in zip(found, by_ranks(k), strict=True):
        assert one == pytest.approx(expected, abs=1e-7)


def test_only_dense_and_only_lexical_keep_their_orders() -> None:
    fused = Fusion.of(DENSE, LEXICAL)
    passages, _ = best(fused.passages, fused.scores({"by": SCORES, "weight": 0.0}), 3)
    assert passages.tolist() == [[7, 2, 4], [1, 0, -1], [8, 3, 6]], "4, not found by dense, ties with its last one, 5"
    passages, _ = best(fused.passages, fused.scores({"by": SCORES, "weight": 1.0}), 3)
    assert passages.tolist() == [[2, 9, 7], [1, 0, -1], [6, 8, 3]], "among equals the dense scores decide"


def test_the_only_passage_with_a_rare_word_is_above_all_others() -> None:
    fused = Fusion.of((np.array([[3, 4]]), np.zeros((1, 2), np.float32)), (np.array([[4, -1]]), np.ones((1, 2))))
    assert as_dicts((fused.passages, fused.lexical))[0] == {3: -1.0, 4: 1.0}, "1 and 0, with mean 0 and deviation 1"


def test_equal_scores_add_nothing() -> None:
    same = (np.array([[3, 4]]), np.array([[1.0, 1.0]], np.float32))
    other = (np.array([[4, 6]]), np.array([[2.0, 0.0]], np.float32))
    fused = Fusion.of(same, other)
    found = as_dicts((fused.passages, fused.scores({"by": SCORES, "weight": 0.5})))[0]
    assert found == {3: -0.5, 4: 0.5, 6: -0.5}


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
def test_best_equals_a_full_sort(depth: int) -> None:
    random = np.random.default_rng(1)
    passages = np.stack([random.permutation(40)[:12] for _ in range(30)])
    scores = random.integers(0, 4, size=passages.shape).astype(np.float32)
    passages[:10, 9:], scores[:10, 9:] = -1, NOTHING
    found, values = best(passages, scores, depth)
    for query in range(30):
        held = [(-s, p) for p, s in zip(passages[query].tolist(), scores[query].tolist(), strict=True) if p >= 0]
        expected = sorted(held)[:depth]
        assert found[query][: len(expected)].tolist() == [passage for _, passage in expected]
        assert values[query][: len(expected)].tolist() == [-score for score, _ in expected]
        assert (found[query][len(expected) :] == -1).all()


def test_settings_have_the_least_of_bm25_first(tiny_params: Params) -> None:
    section = tiny_params.baselines.model_copy(update={"bm25_weights": [1.0, 0.0], "reciprocal_ranks": [60, 10]})
    assert settings(section) == [
        *({"by": "scores", "weight": 0.0}, {"by": "scores", "weight": 1.0}),
        *({"by": "reciprocal ranks", "k": 10}, {"by": "reciprocal ranks", "k": 60}),
    ]
