"""Kinds of queries, shares and examples of a small table, worked out by hand."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

from gnn_encoder.core.records import ATTENTION
from gnn_encoder.evidence.attention_by_kind import (
    examples,
    retrieved_by_labelled,
    shares,
    side_by_side,
    with_kinds,
)
from gnn_encoder.evidence.params import ITSELF, LABELLED, OTHER, POTENTIAL

# Passage 4: queries 0 (labelled, 0.7), 1 (0.8), 2 (0.6), itself. Passage 5: only unlabelled. Passage 6: 1 labelled.
QUERY = [0, 1, 2, -1, 1, -1, 2, -1]
PASSAGE = [4, 4, 4, 4, 5, 5, 6, 6]
WITH = [0.2, 0.4, 0.1, 0.3, 0.5, 0.5, 0.9, 0.1]
WITHOUT = [0.6, 0.1, 0.1, 0.2, 0.4, 0.6, 0.8, 0.2]
PAIRS = pl.DataFrame({"query": [0, 2, 7], "passage": [4, 6, 4]}, schema={"query": pl.Int32, "passage": pl.Int32})
SCORES = np.array([0.7, 0.8, 0.6, 0.3])  # of the rows with a query around passages 4 and 6


def attention(values: list[float], gate: float) -> pl.DataFrame:
    columns = {"query": QUERY, "passage": PASSAGE, "attention": values, "gate": [gate] * len(values)}
    table = pl.DataFrame(columns).to_arrow().cast(ATTENTION)
    return pl.DataFrame(table)


@pytest.fixture
def table() -> pl.DataFrame:
    rows = with_kinds(retrieved_by_labelled(attention(WITH, 0.125).lazy(), PAIRS), SCORES)
    return side_by_side(rows, attention(WITHOUT, 0.25))


def test_kinds(table: pl.DataFrame) -> None:
    assert table["passage"].to_list() == [4, 4, 4, 4, 6, 6], "no labelled query retrieved passage 5"
    assert table["kind"].to_list() == [LABELLED, POTENTIAL, OTHER, ITSELF, LABELLED, ITSELF]
    assert table["score"].to_list() == [0.7, 0.8, 0.6, None, 0.3, None]
    assert table["without"].to_list() == pytest.approx([0.6, 0.1, 0.1, 0.2, 0.8, 0.2])
    assert table["gate_with"].to_list() == [0.125] * 6 and table["gate_without"].to_list() == [0.25] * 6


def test_the_lowest_labelled_score_decides() -> None:
    columns = {"query": [0, 1, 2, 3, -1], "passage": [4] * 5, "attention": [0.2] * 5, "gate": [0.1] * 5}
    table = pl.DataFrame(pl.DataFrame(columns).to_arrow().cast(ATTENTION))
    pairs = pl.DataFrame({"query": [0, 1], "passage": [4, 4]}, schema={"query": pl.Int32, "passage": pl.Int32})
    rows = with_kinds(retrieved_by_labelled(table.lazy(), pairs), np.array([0.9, 0.2, 0.2, 0.1]))
    assert rows["kind"].to_list() == [LABELLED, LABELLED, POTENTIAL, OTHER, ITSELF], "equal to the lowest counts"


def test_shares_of_contested_passages(table: pl.DataFrame) -> None:
    found = shares(table)
    assert list(found) == [LABELLED, POTENTIAL, OTHER, ITSELF]
    assert found[LABELLED]["with"]["passages"] == 1, "passage 6 has a labelled query only: left out"


def test_shares_average_over_passages() -> None:
    kinds = [LABELLED, LABELLED, OTHER, ITSELF] * 3
    generator = np.random.default_rng(0)
    values, others = generator.random(12), generator.random(12)
    table = pl.DataFrame(
        {
            "query": [0, 1, 2, -1] * 3,
            "passage": np.repeat([1, 2, 3], 4),
            "labelled": [True, True, False, False] * 3,
            "kind": kinds,
            "with": values,
            "without": others,
        }
    )
    found = shares(table)
    mine, theirs = (x.reshape(3, 4)[:, :2].mean(axis=1) for x in (values, others))
    assert found[LABELLED]["with"]["mean"] == pytest.approx(mine.mean())
    low, high = stats.t.interval(0.95, 2, loc=theirs.mean(), scale=stats.sem(theirs))
    assert (found[LABELLED]["without"]["low"], found[LABELLED]["without"]["high"]) == pytest.approx((low, high))
    assert found[LABELLED]["difference"]["p"] == pytest.approx(stats.ttest_rel(mine, theirs).pvalue)
    assert POTENTIAL not in found


def test_examples(table: pl.DataFrame) -> None:
    (only,) = examples(table, 3)  # passage 6 has no potential query
    assert only["query"].to_list() == [0, 1, 2, -1], "most attention without MGT first, the passage itself last"
    assert examples(table.filter(passage=6), 3) == []
