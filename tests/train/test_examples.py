"""What training draws, uniform and distinct, judged passages known wherever they come from; and its candidates."""

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.judgements import Identical, contains, pair_keys, relevant_pairs
from gnn_encoder.base.matrix import Matrix, Rows, Scores
from gnn_encoder.base.tables import CANDIDATES, EXAMPLES, candidates_table, read_table, write_table
from gnn_encoder.pipeline.params import Thresholds
from gnn_encoder.train import candidates
from gnn_encoder.train.candidates import denoise, find_candidates, read_ranks, spread
from gnn_encoder.train.examples import (
    BatchSampler,
    Examples,
    Ragged,
    draw_batch,
    examples_from_candidates,
    stream,
    to_examples,
)

from ..texts import PAIR, pairs
from .conftest import LISTS


@pytest.mark.parametrize("count", [1, 2, 3])
def test_draw_is_uniform_and_distinct(count: int) -> None:
    lists = Ragged.of_lists(pl.Series([[5], [10, 11, 12, 13, 14], [20, 21, 22]]))
    drawn = lists.draw(np.full(6000, 1), count, np.random.default_rng(0))
    assert drawn.shape == (6000, count) and all(len(set(row)) == count for row in drawn.tolist())
    frequency = np.array([(drawn == value).sum() for value in range(10, 15)]) / drawn.size
    np.testing.assert_allclose(frequency, 0.2, atol=0.02)  # 4 standard deviations
    (one, three) = lists.draw(np.array([0, 2]), 3, np.random.default_rng(0)).tolist()
    assert one == [5, 5, 5] and sorted(three) == [20, 21, 22]


def test_keys_do_not_overflow() -> None:
    keys = pair_keys(pairs((500_000, 8_000_000), (2, 1)), 9_000_000)
    assert keys.tolist() == [18_000_001, 500_000 * 9_000_000 + 8_000_000]
    assert contains(keys, np.array([[18_000_001, 1], [2, keys[1]]])).tolist() == [[True, False], [False, True]]
    assert contains(keys[:0], np.array([3])).tolist() == [False]


def test_relevant_pairs(tmp_path: Path) -> None:
    judged = {"qid": ["c", "a", "a", "b", "c"], "pid": ["x", "z", "y", "y", "x"], "grade": [1, 2, 1, 0, 1]}
    tables = {"queries": {"qid": ["a", "b", "c"]}, "qrels": judged, "passages": {"pid": ["x", "y", "z"]}}
    for name, columns in tables.items():
        pl.DataFrame(columns).write_parquet(tmp_path / name)
    found = relevant_pairs(*(tmp_path / name for name in tables))
    assert found.rows() == [(0, 1), (0, 2), (2, 0)] and dict(found.schema) == PAIR


def test_tables_of_examples(tmp_path: Path) -> None:
    """Query 0 has no negatives: it gets random ones, or, with `scored` and null, no place among the items."""
    table = pl.DataFrame({"query": [0, 4], "positives": [[1], [2, 7]], "negatives": [None, [1, 3]]}, schema=LISTS)
    every, scored = (to_examples(table, 10, scored=scored) for scored in (False, True))
    assert every.queries.tolist() == [0, 4]
    assert (every.positives.values.tolist(), every.positives.offsets.tolist()) == ([1, 2, 7], [0, 1, 3])
    assert (every.negatives.values.tolist(), every.negatives.offsets.tolist()) == ([1, 3], [0, 0, 2])
    assert scored.queries.tolist() == [4] and scored.known.tolist() == every.known.tolist() == [1, 42, 47]
    pl.DataFrame({"query": [1]}).write_parquet(tmp_path / "other.parquet")
    with pytest.raises(UserError, match=r"other.parquet: columns are query int64, expected query int32, positives"):
        read_table(tmp_path / "other.parquet", EXAMPLES)


def test_batch_holds_positives_first_then_each_queries_negatives(examples: Examples) -> None:
    items = np.array([4, 1, 0, 4])
    batch = draw_batch(examples, items, 2, np.random.default_rng(1))
    assert batch.queries.tolist() == items.tolist() and batch.passages.shape == (12,)
    for item, positive, negatives in zip(items, batch.passages[:4], batch.passages[4:].reshape(4, 2), strict=True):
        assert examples.is_spared(np.array([item]), np.array([positive]))[0]
        listed = examples.negatives.values[slice(*examples.negatives.offsets[item : item + 2])].tolist()
        assert len(set(negatives.tolist())) == 2 and set(negatives.tolist()) <= set(listed)
    # A query with fewer negatives gets each once, and random passages besides.
    for item in (6, 4):
        listed = examples.negatives.values[slice(*examples.negatives.offsets[item : item + 2])].tolist()
        rngs, count = map(np.random.default_rng, range(60)), len(listed) + 4
        drawn = np.stack([draw_batch(examples, np.array([item]), count, rng).passages[1:] for rng in rngs])
        assert (np.sort(drawn[:, :-4]) == listed).all() and set(drawn[:, -4:].ravel().tolist()) == set(range(12))
    assert draw_batch(examples, np.array([6, 0]), 0, np.random.default_rng(0)).passages.shape == (2,)


def test_an_epoch_is_shuffled_once_in_an_order_that_follows_from_seed_and_epoch() -> None:
    batches = BatchSampler(23, 5, seed=1)
    assert sorted(BatchSampler(3, 100, seed=0).items(2).tolist()) == [0, 1, 2], "fewer than a batch"
    for step in (7, 6, 2, 9):  # a resumed training begins anywhere
        expected = np.array_split(np.random.default_rng([1, step // 5]).permutation(23), 5)[step % 5]
        assert batches.items(step).tolist() == expected.tolist()
    sections = ("train_retriever", "train_dual_encoder", "pair.pretrain", "pair.finetune")
    assert len({stream(13, section) for section in sections}) == 4, "trainings draw different batches"
    assert stream(13, "pair.pretrain") == stream(13, "pair.pretrain") != stream(14, "pair.pretrain")


def test_counts_weigh_positives() -> None:
    """Query 4 has passages 1, 2 and 7, query 5 has 3. Passage 7 was not logged, 9 is no positive, 8 is no query's."""
    plain = to_examples(pl.DataFrame([(4, [1, 2, 7], [0]), (5, [3], [])], LISTS, orient="row"), 10)
    rows = [(4, 2, 6), (4, 1, 3), (4, 9, 50), (6, 8, 50), (5, 3, 2)]
    logged = pl.DataFrame(rows, PAIR | {"count": pl.Int64}, orient="row")
    assert plain.weighed(logged.clear()) is plain and plain.weights is None, "and draws as ever"
    examples = plain.weighed(logged)
    assert examples.weights is not None and examples.weights.tolist() == [3, 6, 1, 2]
    drawn = examples.draw_positives(np.tile([0, 1], 20_000), np.random.default_rng(1)).reshape(-1, 2)
    shares = [float((drawn[:, 0] == passage).mean()) for passage in (1, 2, 7)]
    assert shares == pytest.approx([0.3, 0.6, 0.1], abs=0.01)
    assert set(drawn[:, 1].tolist()) == {3}
    batch = draw_batch(examples, np.array([0, 1]), 1, np.random.default_rng(2))
    assert batch.passages[0] in (1, 2, 7) and batch.passages[1] == 3


# --- candidates: one search in windows, and which become positives and negatives

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
    table, counts = denoise(shuffled, labelled, Thresholds(positive_threshold=0.9, negative_threshold=0.1))
    assert table.columns == ["query", "positives", "negatives"]
    expected = [(0, [10, 11], [13, 14]), (1, [10, 17], [16]), (3, [20], []), (4, [21], []), (5, [22], None)]
    assert table.rows() == expected
    assert counts == {
        "queries": 5,
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
