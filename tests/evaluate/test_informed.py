"""Attention by kind of neighbour, and queries won at rank 1, by hand."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gnn_encoder.evaluate import slices
from gnn_encoder.evaluate.measures import interval
from gnn_encoder.pipeline.params import Params

# Passage 0 has one labelled query and two others, passage 1 a labelled one and another, passage 2 labelled ones alone.
ATTENTION = pl.DataFrame(
    [
        *((4, 0, 0.2, 0.1), (5, 0, 0.1, 0.1), (6, 0, 0.3, 0.1), (-1, 0, 0.4, 0.1)),
        *((6, 1, 0.7, 0.2), (4, 1, 0.1, 0.2), (-1, 1, 0.2, 0.2)),
        *((5, 2, 0.9, 0.3), (-1, 2, 0.1, 0.3)),
    ],
    schema={"query": pl.Int32, "passage": pl.Int32, "attention": pl.Float32, "gate": pl.Float32},
    orient="row",
)
PAIRS = pl.DataFrame({"query": [4, 4, 5], "passage": [0, 1, 2]}, schema={"query": pl.Int32, "passage": pl.Int32})


def test_shares_are_of_passages_with_a_choice() -> None:
    found = slices.attention_shares(ATTENTION, PAIRS)
    for kind, values in {"labelled": [0.2, 0.1], "other": [0.2, 0.7], "itself": [0.4, 0.2]}.items():
        low, high = interval(np.array(values))
        wanted = {"mean": sum(values) / 2, "low": low, "high": high, "passages": 2}
        assert found[kind] == pytest.approx(wanted, abs=1e-6)
    table = slices.attention_table(found)
    assert [row[1] for row in table.rows] == ["0.150", "0.450", "0.300"]
    assert table.note.startswith("2 passages")
    assert slices.attention_shares(ATTENTION.filter(passage=2), PAIRS) == {}
    assert slices.attention_table({}).rows == []


def test_a_case_names_the_queries_that_informed_its_passage(one_branch: Path, tiny_params: Params) -> None:
    """GNN-encoder alone has q1's p1 at rank 1, which M_de ranks second; it loses none at rank 1."""
    won, counts = slices.compare_at_rank_one(tiny_params.evaluate)
    assert won.select("qid", "pid", "rank", "query", "passage").rows() == [("q1", "p1", 2, 1, 1)]
    assert counts == {"queries": 3, "won": 1, "lost": 0}
    (case,) = slices.describe_cases(won, ATTENTION, PAIRS, pl.Series([f"node {row}" for row in range(7)]))
    assert case["query"] == "<script>alert('second')</script>" and case["passage"].startswith("<i>title</i> </script>")
    assert case["rank_of_dual_encoder"] == 2
    assert case["informed_by"] == [
        {"query": "node 6", "attention": pytest.approx(0.7), "labelled": False},
        {"query": "node 4", "attention": pytest.approx(0.1), "labelled": True},
    ]
    table = slices.cases_table([case], counts)
    assert table.rows[0][1].splitlines()[1:] == ["0.70 node 6", "0.10* node 4"] and table.rows[0][2] == "2"
    assert table.note.startswith("Of 3 dev queries GNN-encoder alone answers 1 at rank 1, M_de alone 0.")
