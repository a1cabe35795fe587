"""Which candidates become positives and negatives: a table worked out by hand, and every count."""

import numpy as np
import polars as pl

from gnn_encoder.train.candidates import denoise, spread

SCORED = {"query": pl.Int32, "passage": pl.Int32, "score": pl.Float32}


def test_by_hand() -> None:
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
    labelled = pl.DataFrame(pairs, schema={"query": pl.Int32, "passage": pl.Int32}, orient="row")
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


def test_the_order_of_rows_does_not_matter() -> None:
    rows = [(q, p, ((q * 31 + p * 17) % 100) / 100) for q in range(6) for p in range(9)]
    labelled = pl.DataFrame({"query": [0, 1, 2], "passage": [1, 2, 3]}, schema={"query": pl.Int32, "passage": pl.Int32})
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
    labelled = pl.DataFrame(pairs, schema={"query": pl.Int32, "passage": pl.Int32}, orient="row")
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
