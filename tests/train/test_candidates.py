"""Candidates: one search in windows, and which become positives and negatives."""

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from gnn_encoder.base.judgements import Identical
from gnn_encoder.base.matrix import Matrix, Rows, Scores
from gnn_encoder.base.tables import CANDIDATES, candidates_table, write_table
from gnn_encoder.train import candidates
from gnn_encoder.train.candidates import denoise, find_candidates, read_ranks, spread
from gnn_encoder.train.examples import examples_from_candidates

from .conftest import PAIR, pairs

QUERIES, PASSAGES, DEPTH = 23, 40, 6
PAIRS = pairs((0, 1), (3, 0), (3, 5), (7, 2), (9, 2), (22, 3))
# Passage 4 is a copy of passage 2, and query 8 is passage 6 itself.
IDENTICAL = Identical(copies=np.array([4]), firsts=np.array([2]), own=pairs((8, 6)))


def find(queries: Matrix) -> tuple[Rows, Scores]:
    """The passages 0 to 39 from the one on that a query's only column names, DEPTH of them."""
    rows = (queries.astype(np.int64) + np.arange(DEPTH)) % PASSAGES
    return rows, (1 / (1 + np.arange(DEPTH, dtype=np.float32)))[None].repeat(len(rows), axis=0)


ASKED = np.random.default_rng(0).integers(0, 9, size=(QUERIES, 1)).astype(np.float32)
WHOLE = IDENTICAL.distinct(pl.DataFrame(candidates_table(*find(ASKED))), PAIRS)


def test_windows_are_one_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "WINDOW", 5)
    for windows in (5, 1):
        again = Mock(side_effect=find)
        found = find_candidates(again, ASKED, tmp_path, IDENTICAL, PAIRS, label="search")
        assert pl.DataFrame(pa.concat_tables(found)).equals(WHOLE) and again.call_count == windows
        (tmp_path / "part-000003.parquet").unlink()


def test_negatives_are_the_other_candidates_of_some_ranks(tmp_path: Path) -> None:
    examples = examples_from_candidates(pairs((0, 1), (0, 2), (3, 0)), pairs((0, 2), (0, 5), (0, 4), (1, 7), (3, 0)))
    assert examples.rows() == [(0, [1, 2], [5, 4]), (3, [0], [])]
    write_table(tmp_path / "c.parquet", CANDIDATES, [WHOLE.to_arrow()])
    for first, end in ((0, 4), (2, None), (1, 3)):
        expected = [row[:3] for row in WHOLE.rows() if first <= row[2] < (end or DEPTH)]
        assert read_ranks(tmp_path / "c.parquet", first=first, end=end).rows() == expected


def test_denoised_by_hand() -> None:
    scored = {
        0: {10: 0.99, 11: 0.95, 12: 0.50, 13: 0.05, 14: 0.01},  # 10 is labelled, 11 nobody labelled, 12 is neither
        1: {10: 0.02, 15: 0.40, 16: 0.30, 17: 0.92},  # 10 stays a positive; no negative below 0.1: the lowest one
        2: {18: 0.80, 19: 0.05},  # nothing labelled and nothing above 0.9: left out
        3: {20: 0.97},  # nothing labelled, but found
        4: {21: 0.60},  # its only candidate is labelled: no negative
    }
    labelled = pairs((0, 10), (1, 10), (4, 21), (5, 22))  # no passage of query 5 is scored
    rows = [(query, passage, score) for query, scores in scored.items() for passage, score in scores.items()]
    table = pl.DataFrame(rows, schema=PAIR | {"score": pl.Float32}, orient="row")
    shuffled = table.sample(fraction=1, shuffle=True, seed=1)  # their order does not matter
    table, counts = denoise(shuffled, labelled, positive_threshold=0.9, negative_threshold=0.1)
    assert table.columns == ["query", "positives", "negatives"]
    expected = [(0, [10, 11], [13, 14]), (1, [10, 17], [16]), (3, [20], []), (4, [21], []), (5, [22], None)]
    assert table.rows() == expected
    assert counts == {
        "queries": 5,
        "queries_without_positive_left_out": 1,
        "queries_given_their_lowest_candidate_as_negative": 1 + 0,
        "queries_without_negative": 2,
        "labelled_positives": 4,
        "denoised_positives": 3,  # (0, 11), (1, 17), (3, 20)
        "hard_negatives": 3,  # (0, 13), (0, 14), (2, 19)
        "candidates_between_the_thresholds": 4,  # (0, 12), (1, 15), (1, 16), (2, 18)
    }


SPREAD = [(4, 4, [0, 1, 2, 3]), (3, 100, [0, 1, 2]), (10, 1, [0]), (10, 3, [0, 2, 9]), (10, 6, [0, 1, 2, 3, 5, 9])]
SPREAD += [(50, 8, [0, 1, 2, 4, 8, 15, 28, 49]), (1, 5, [0])]


@pytest.mark.parametrize(("depth", "count", "expected"), SPREAD)
def test_candidates_are_spread_over_the_ranks_thinner_downwards(depth: int, count: int, expected: list[int]) -> None:
    ranks = np.arange(2 * depth, dtype=np.int16)
    found = spread(pl.DataFrame({"query": 7, "passage": 3 * ranks, "rank": ranks}), depth, count)
    assert found.rows() == [(7, 3 * rank) for rank in expected]
