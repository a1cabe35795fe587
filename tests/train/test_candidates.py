"""Candidates: the same in windows as of one search, resumed, read in parts; which become positives and negatives."""

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from gnn_encoder.base.judgements import Identical
from gnn_encoder.base.matrix import Matrix, Rows, Scores
from gnn_encoder.base.tables import CANDIDATES, candidates_table, iterate_candidates, write_table
from gnn_encoder.pipeline.params import Params
from gnn_encoder.train import candidates
from gnn_encoder.train.candidates import denoise, find_candidates, read_top, spread
from gnn_encoder.train.cross_encoder import candidate_examples
from gnn_encoder.train.examples import examples_from_candidates, to_examples

QUERIES, PASSAGES, DEPTH = 23, 40, 6
PAIR = {"query": pl.Int32, "passage": pl.Int32}
SCORED = PAIR | {"score": pl.Float32}
PAIRS = pl.DataFrame({"query": [0, 3, 3, 7, 9, 22], "passage": [1, 0, 5, 2, 2, 3]}).cast(pl.Int32)
# Passage 4 is a copy of passage 2, and query 8 is passage 6 itself.
IDENTICAL = Identical(
    copies=np.array([4]), firsts=np.array([2]), own=pl.DataFrame({"query": [8], "passage": [6]}).cast(pl.Int32)
)


def find(queries: Matrix) -> tuple[Rows, Scores]:
    """The passages 0 to 39 from the one on that a query's only column names, DEPTH of them."""
    rows = (queries.astype(np.int64) + np.arange(DEPTH)) % PASSAGES
    return rows, (1 / (1 + np.arange(DEPTH, dtype=np.float32)))[None].repeat(len(rows), axis=0)


@pytest.fixture
def queries() -> Matrix:
    return np.random.default_rng(0).integers(0, 9, size=(QUERIES, 1)).astype(np.float32)


@pytest.fixture
def whole(queries: Matrix) -> pl.DataFrame:
    """All candidates at once."""
    return IDENTICAL.distinct(pl.DataFrame(candidates_table(*find(queries))), PAIRS)


def test_windows_are_one_search(
    queries: Matrix, whole: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "WINDOW", 5)
    found = find_candidates(find, queries, tmp_path, IDENTICAL, PAIRS, label="search")
    assert pl.DataFrame(pa.concat_tables(found)).equals(whole)
    (tmp_path / "candidates-000003.parquet").unlink()
    asked: list[int] = []

    def again(part: Matrix) -> tuple[Rows, Scores]:
        asked.append(len(part))
        return find(part)

    found = find_candidates(again, queries, tmp_path, IDENTICAL, PAIRS, label="search")
    assert pl.DataFrame(pa.concat_tables(found)).equals(whole) and asked == [5]


@pytest.mark.parametrize(("first", "last"), [(0, None), (1, 4)])
def test_negatives_are_read_in_parts(
    whole: pl.DataFrame, tmp_path: Path, tiny_params: Params, first: int, last: int | None
) -> None:
    """The oracle: the EXAMPLES table that polars makes of the whole table."""
    settings = tiny_params.train_cross_encoder.model_copy(update={"range_min": first, "range_max": last})
    write_table(tmp_path / "c.parquet", CANDIDATES, whole.to_arrow().to_batches(max_chunksize=7))
    parts = list(iterate_candidates(tmp_path / "c.parquet"))
    found = candidate_examples(PAIRS, parts, settings, PASSAGES, IDENTICAL)
    chosen = whole.filter(pl.col("rank") >= first, pl.col("rank") < (last or DEPTH))
    expected = to_examples(examples_from_candidates(PAIRS, chosen), PASSAGES, identical=IDENTICAL)
    assert found.queries.tolist() == expected.queries.tolist() == [0, 3, 7, 9, 22]
    assert found.known.tolist() == expected.known.tolist()
    for ours, theirs in ((found.positives, expected.positives), (found.negatives, expected.negatives)):
        assert ours.values.tolist() == theirs.values.tolist() and ours.offsets.tolist() == theirs.offsets.tolist()


def test_only_the_first_ranks_are_read(whole: pl.DataFrame, tmp_path: Path) -> None:
    write_table(tmp_path / "c.parquet", CANDIDATES, [whole.to_arrow()])
    assert read_top(tmp_path / "c.parquet", 3).equals(whole.filter(pl.col("rank") < 3))
    assert read_top(tmp_path / "c.parquet", None).equals(whole)


def test_denoised_by_hand() -> None:
    rows = [
        (0, 10, 0.99),  # labelled
        (0, 11, 0.95),  # a positive that nobody labelled
        (0, 12, 0.50),  # between the thresholds: neither
        (0, 13, 0.05),
        (0, 14, 0.01),
        (1, 10, 0.02),  # labelled: stays a positive whatever its score
        (1, 15, 0.40),  # no negative below 0.1: the lowest one
        (1, 16, 0.30),
        (1, 17, 0.92),
        (2, 18, 0.80),  # nothing labelled and nothing above 0.9: left out
        (2, 19, 0.05),
        (3, 20, 0.97),  # nothing labelled, but found
        (4, 21, 0.60),  # its only candidate is labelled: no negative
    ]
    pairs = [(0, 10), (1, 10), (4, 21), (5, 22)]  # no passage of query 5 is scored
    scored = pl.DataFrame(rows, schema=SCORED, orient="row")
    labelled = pl.DataFrame(pairs, schema=PAIR, orient="row")
    table, counts = denoise(scored, labelled, positive_threshold=0.9, negative_threshold=0.1)
    assert table.columns == ["query", "positives", "negatives"]
    assert table.rows() == [
        (0, [10, 11], [13, 14]),
        (1, [10, 17], [16]),
        (3, [20], []),
        (4, [21], []),
        (5, [22], None),
    ]
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


def test_the_order_of_scored_rows_does_not_matter() -> None:
    rows = [(q, p, ((q * 31 + p * 17) % 100) / 100) for q in range(6) for p in range(9)]
    labelled = pl.DataFrame({"query": [0, 1, 2], "passage": [1, 2, 3]}, schema=PAIR)
    options = {"positive_threshold": 0.9, "negative_threshold": 0.1}
    scored = pl.DataFrame(rows, schema=SCORED, orient="row")
    table, counts = denoise(scored, labelled, **options)
    again, same = denoise(scored.sample(fraction=1, shuffle=True, seed=1), labelled, **options)
    assert table.equals(again) and counts == same


def test_negatives_relative_to_the_labelled_passage() -> None:
    rows = [
        (0, 10, 0.60),  # labelled
        (0, 11, 0.10),  # labelled too: the best one counts
        (0, 12, 0.50),  # above half of 0.6
        (0, 13, 0.29),
        (1, 14, 0.02),  # labelled: the lowest other candidate stands in
        (1, 15, 0.40),
        (1, 16, 0.30),
        (2, 17, 0.19),  # its labelled passage was not scored: the threshold
        (2, 18, 0.21),
        (3, 19, 0.99),  # labelled
        (3, 20, 0.95),  # above the positive threshold
        (3, 21, 0.49),
    ]
    pairs = [(0, 10), (0, 11), (1, 14), (2, 99), (3, 19)]
    scored = pl.DataFrame(rows, schema=SCORED, orient="row")
    labelled = pl.DataFrame(pairs, schema=PAIR, orient="row")
    table, counts = denoise(scored, labelled, positive_threshold=0.9, negative_threshold=0.2, relative=0.5)
    assert table.rows() == [(0, [10, 11], [13]), (1, [14], [16]), (2, [99], [17]), (3, [19, 20], [21])]
    assert counts["queries_given_their_lowest_candidate_as_negative"] == 1
    assert counts["hard_negatives"] == 3 and counts["candidates_between_the_thresholds"] == 4


def ranks_of(depth: int, count: int) -> list[int]:
    candidates = pl.DataFrame({"query": 7, "rank": np.arange(2 * depth, dtype=np.int16)})
    return spread(candidates, depth, count)["rank"].to_list()


def test_candidates_are_spread_over_the_ranks_and_thin_out_downwards() -> None:
    assert ranks_of(4, 4) == [0, 1, 2, 3] and ranks_of(3, 100) == [0, 1, 2] and ranks_of(10, 1) == [0]
    assert ranks_of(10, 3) == [0, 2, 9] and ranks_of(10, 6) == [0, 1, 2, 3, 5, 9]
    assert ranks_of(50, 8) == [0, 1, 2, 4, 8, 15, 28, 49]
    for depth, count in ((1, 5), (7, 7), (100, 3), (1000, 40)):
        ranks = ranks_of(depth, count)
        assert len(ranks) == min(depth, count) and ranks[0] == 0 and ranks[-1] == depth - 1
