"""Slices as a literal table."""

from dataclasses import replace

from gnn_encoder.evaluation.significance import Comparison
from gnn_encoder.evaluation.slices import About, Slice, Sliced
from gnn_encoder.presenting.slice_table import split_table


def compared(difference: float, p: float, queries: int) -> dict[str, Comparison]:
    ends = {"low": difference - 0.02, "high": difference + 0.02}
    found = Comparison(baseline="dual_encoder", difference=difference, **ends, p=p, p_holm=p, queries=queries)
    return {"gnn_encoder": found}


SLICES = {
    "similarity": {
        "lower third": Slice(
            queries=1200, means={"gnn_encoder": 0.45, "dual_encoder": 0.4}, against=compared(0.05, 0.001, 1200)
        ),
        "upper third": Slice(
            queries=700, means={"gnn_encoder": 0.5, "dual_encoder": 0.51}, against=compared(-0.01, 0.4, 700)
        ),
    },
    "cut": {
        "no": Slice(queries=1, means={"gnn_encoder": 1.0, "dual_encoder": 0.0}, against=compared(1.0, 1.0, 1)),
        "yes": Slice(queries=0, means={}, against={}),
    },
}
ABOUT = About(thirds=(0.5, 0.75), passage_length=48, left_out=())
SLICED = Sliced(measure="RR@10", baseline="dual_encoder", about=ABOUT, slices=SLICES)


def test_table_of_a_split() -> None:
    found = split_table("gnn_encoder", SLICED, "test")
    assert found.title == "Test queries: GNN-encoder by slices, RR@10, points of 100"
    assert "more than 48 tokens" in found.note and "Answers" not in found.note
    assert found.columns == ["Slice", "queries", "M_de", "GNN-encoder"]
    assert found.rows == [
        ["nearest training query: lower third (below 0.500)", "1,200", "40.0", "▲ 45.0\n+5.0 [+3.0, +7.0]\np = 0.001"],
        ["nearest training query: upper third (from 0.750)", "700", "51.0", "50.0\n-1.0 [-3.0, +1.0]\np = 0.40"],
        ["a relevant passage is cut: no", "1", "0.0", "100.0\n+100.0 [+98.0, +102.0]\np = 1.00"],
        ["a relevant passage is cut: yes", "0", "–", "–"],
    ]
    assert split_table("pair", SLICED, "test").columns == found.columns  # no main system: all of its systems
    unknown = replace(SLICED, about=replace(ABOUT, left_out=("labelled", "cut")))
    assert "Answers judge these queries" in split_table("gnn_encoder", unknown, "test").note
