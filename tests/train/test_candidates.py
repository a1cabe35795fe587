"""Candidates: one search in windows; which become positives and negatives; and the teacher's numbers."""

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from scipy.optimize import check_grad
from scipy.special import expit

from gnn_encoder.base.judgements import Identical
from gnn_encoder.base.matrix import Matrix, Rows, Scores
from gnn_encoder.base.tables import CANDIDATES, candidates_table, write_table
from gnn_encoder.pipeline.params import Denoise, Params
from gnn_encoder.train import candidates
from gnn_encoder.train.candidates import Teacher, denoise, find_candidates, fit_teacher, read_top, spread, to_score
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


ASKED = np.random.default_rng(0).integers(0, 9, size=(QUERIES, 1)).astype(np.float32)
WHOLE = IDENTICAL.distinct(pl.DataFrame(candidates_table(*find(ASKED))), PAIRS)


def test_windows_are_one_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "WINDOW", 5)
    for windows in (5, 1):
        again = Mock(side_effect=find)
        found = find_candidates(again, ASKED, tmp_path, IDENTICAL, PAIRS, label="search")
        assert pl.DataFrame(pa.concat_tables(found)).equals(WHOLE) and again.call_count == windows
        (tmp_path / "candidates-000003.parquet").unlink()


@pytest.mark.parametrize(("first", "last"), [(0, None), (1, 4)])
def test_negatives_are_of_some_ranks(tmp_path: Path, tiny_params: Params, first: int, last: int | None) -> None:
    """The oracle: the EXAMPLES table that polars makes of the whole table."""
    settings = tiny_params.train_cross_encoder.model_copy(update={"range_min": first, "range_max": last})
    write_table(tmp_path / "c.parquet", CANDIDATES, [WHOLE.to_arrow()])
    assert read_top(tmp_path / "c.parquet", last).equals(WHOLE.filter(pl.col("rank") < (last or DEPTH)))
    found = candidate_examples(PAIRS, tmp_path / "c.parquet", settings, PASSAGES, IDENTICAL)
    chosen = WHOLE.filter(pl.col("rank") >= first, pl.col("rank") < (last or DEPTH))
    expected = to_examples(examples_from_candidates(PAIRS, chosen), PASSAGES, identical=IDENTICAL)
    assert found.queries.tolist() == expected.queries.tolist() == [0, 3, 7, 9, 22]
    assert found.known.tolist() == expected.known.tolist()
    for ours, theirs in ((found.positives, expected.positives), (found.negatives, expected.negatives)):
        assert ours.values.tolist() == theirs.values.tolist() and ours.offsets.tolist() == theirs.offsets.tolist()


def pairs_of(of: dict[int, dict[int, float]]) -> pl.DataFrame:
    rows = [(query, passage, score) for query, scores in of.items() for passage, score in scores.items()]
    return pl.DataFrame(rows, schema=SCORED, orient="row")


def test_denoised_by_hand() -> None:
    scored = {
        0: {10: 0.99, 11: 0.95, 12: 0.50, 13: 0.05, 14: 0.01},  # 10 is labelled, 11 nobody labelled, 12 is neither
        1: {10: 0.02, 15: 0.40, 16: 0.30, 17: 0.92},  # 10 stays a positive; no negative below 0.1: the lowest one
        2: {18: 0.80, 19: 0.05},  # nothing labelled and nothing above 0.9: left out
        3: {20: 0.97},  # nothing labelled, but found
        4: {21: 0.60},  # its only candidate is labelled: no negative
    }
    pairs = [(0, 10), (1, 10), (4, 21), (5, 22)]  # no passage of query 5 is scored
    labelled = pl.DataFrame(pairs, schema=PAIR, orient="row")
    shuffled = pairs_of(scored).sample(fraction=1, shuffle=True, seed=1)  # their order does not matter
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


def test_negatives_relative_to_the_labelled_passage() -> None:
    of = {
        0: {10: 0.60, 11: 0.10, 12: 0.50, 13: 0.29},  # 10 and 11 are labelled: the best one counts
        1: {14: 0.02, 15: 0.40, 16: 0.30},  # 14 is labelled: the lowest other candidate stands in
        2: {17: 0.19, 18: 0.21},  # its labelled passage was not scored: the threshold
        3: {19: 0.99, 20: 0.95, 21: 0.49},  # 19 is labelled, 20 above the positive threshold
    }
    pairs, scored = [(0, 10), (0, 11), (1, 14), (2, 99), (3, 19)], pairs_of(of)
    labelled = pl.DataFrame(pairs, schema=PAIR, orient="row")
    table, counts = denoise(scored, labelled, positive_threshold=0.9, negative_threshold=0.2, relative=0.5)
    assert table.rows() == [(0, [10, 11], [13]), (1, [14], [16]), (2, [99], [17]), (3, [19, 20], [21])]
    assert counts["queries_given_their_lowest_candidate_as_negative"] == 1
    assert counts["hard_negatives"] == 3 and counts["candidates_between_the_thresholds"] == 4


def test_what_a_teacher_scores() -> None:
    rows = [(5, 1, 0), (5, 9, 1), (5, 2, 2), (7, 3, 0)]
    found = pl.DataFrame(rows, schema=PAIR | {"rank": pl.Int16}, orient="row")
    section, pairs = Denoise.model_construct(range_max=3, candidates=2), PAIRS[:1].vstack(found[:1, :2])
    assert to_score(found, section).rows() == [(5, 1, True), (5, 2, True), (7, 3, True)]
    assert to_score(found, section, pairs).rows() == [(0, 1, False), (5, 1, True), (5, 2, True), (7, 3, True)]


@pytest.mark.parametrize(
    ("depth", "count", "expected"),
    [
        *((4, 4, [0, 1, 2, 3]), (3, 100, [0, 1, 2]), (10, 1, [0]), (10, 3, [0, 2, 9]), (10, 6, [0, 1, 2, 3, 5, 9])),
        *((50, 8, [0, 1, 2, 4, 8, 15, 28, 49]), (1, 5, [0])),
    ],
)
def test_candidates_are_spread_over_the_ranks_and_thin_out_downwards(
    depth: int, count: int, expected: list[int]
) -> None:
    ranked = pl.DataFrame({"query": 7, "rank": np.arange(2 * depth, dtype=np.int16)})
    assert spread(ranked, depth, count)["rank"].to_list() == expected


# --- the teacher

TRUE = Teacher(cross_encoder=0.8, retriever=6.0, standardised=True, scale=2.0, shift=-2.5)


def drawn(queries: int = 3000) -> pl.DataFrame:
    """Lists whose labels are drawn with the probabilities of TRUE."""
    random, n = np.random.default_rng(0), queries * 8
    logit, retrieved = random.normal(2, 3, n).astype(np.float32), random.normal(0.5, 0.3, n).astype(np.float32)
    query = np.repeat(np.arange(queries, dtype=np.int32), 8)
    lists = pl.DataFrame({"query": query, "logit": logit, "retrieved": retrieved, "listed": True})
    return lists.with_columns(relevant=random.random(n) < TRUE.score(lists)["score"].to_numpy())


def test_scores_by_hand() -> None:
    logits, retrieved = np.array([0.0, 2.0, -4.0, 5.0, 2.0, 2.0, 3.0]), np.array([1.0, 0.5, 0.0, 0.25, 0.5, 0.5, 0.0])
    listed = [True, True, True, False, True, True, True]  # the fourth is labelled, and was not retrieved
    lists = pl.DataFrame({"query": [3] * 4 + [4] * 2 + [5], "logit": logits, "retrieved": retrieved, "listed": listed})
    combined = 0.8 * logits + 6 * retrieved
    z = (combined - combined[:3].mean()) / combined[:3].std()
    z[4:] = 0  # what cannot be told apart is average
    found = TRUE.score(lists)
    np.testing.assert_allclose(found["combined"], combined, rtol=1e-6)
    np.testing.assert_allclose(found["score"], expit(2 * z - 2.5), rtol=1e-6)
    plain = Teacher().score(lists.with_columns(retrieved=None))
    np.testing.assert_allclose(plain["combined"], logits, rtol=1e-6)
    np.testing.assert_allclose(plain["score"], expit(logits), rtol=1e-6)


def test_it_finds_the_numbers_that_labels_were_drawn_with() -> None:
    found = fit_teacher(drawn())
    # Labels do not depend on the size of both weights, since the sum is standardised.
    assert found.cross_encoder / found.retriever == pytest.approx(TRUE.cross_encoder / TRUE.retriever, rel=0.1)
    assert found.scale == pytest.approx(TRUE.scale, rel=0.1)
    assert found.shift == pytest.approx(TRUE.shift, rel=0.1)
    assert fit_teacher(drawn(400).with_columns(logit=-pl.col("logit"))).cross_encoder == 0, "a score that misleads"
    found = fit_teacher(drawn(50).with_columns(relevant=pl.col("logit") > 2))  # labels without error
    assert np.isfinite([found.cross_encoder, found.retriever, found.shift]).all()


def test_nothing_to_learn_from(caplog: pytest.LogCaptureFixture) -> None:
    assert fit_teacher(drawn(20).with_columns(relevant=True)) == Teacher()
    told = "warning: no dev query has a relevant and another candidate; M_ce's score stands as it is"
    assert caplog.messages == [told]


def test_gradients() -> None:
    lists = drawn(30).sort("query", ~pl.col("relevant"))
    mixed = lists.filter(pl.col("relevant").any().over("query") & (~pl.col("relevant")).any().over("query"))
    of_lists = candidates._of_lists(mixed, np.array([2.0, 0.5]))
    of_labels = candidates._of_labels(lists["logit"].to_numpy().astype(np.float64), lists["relevant"].to_numpy())
    for loss in (of_lists, of_labels):
        for at in ([0.0, 0.0], [0.3, 1.2], [-1.0, 0.5]):
            assert check_grad(lambda x, f=loss: f(x)[0], lambda x, f=loss: f(x)[1], np.array(at)) < 1e-5
