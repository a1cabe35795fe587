from typing import Any

import pytest

from gnn_encoder.evaluation.costs import Costs
from gnn_encoder.presenting.compared import costs_table, latency_panel
from gnn_encoder.presenting.quality import Mean
from gnn_encoder.presenting.tables import markdown

COSTS = {
    "gnn_encoder": Costs(
        vectors_a_passage=1.0, bytes_a_passage=1536.4, encode_ms=2.345, search_ms=1.234, training_seconds=600.4
    ),
    "dual_cross": Costs(
        vectors_a_passage=3.0, bytes_a_passage=4608.0, encode_ms=2.0, search_ms=3.0, training_seconds=None
    ),
}


def test_costs_table() -> None:
    logged = Costs(
        vectors_a_passage=1.0, bytes_a_passage=9.0, encode_ms=2.0, search_ms=3.0, training_seconds=1.0, lookup_ms=0.5
    )
    assert logged.latency_ms == 5.5
    assert [line.replace(" ", "") for line in markdown(costs_table(COSTS | {"bm25": logged})).splitlines()] == [
        "|System|vectorsapassage|bytesapassage|encode,ms|search,ms|secondlook-up,ms|training,s|",
        "|------------------|----------------:|--------------:|---------:|---------:|-----------------:|----------:|",
        "|GNN-encoder|1|1536|2.35|1.23|–|600|",
        "|Dual-Cross-Encoder|3|4608|2.00|3.00|–|–|",
        "|BM25|1|9|2.00|3.00|0.50|1|",
    ]


def test_no_mark_lies_on_the_edge(axes: Any) -> None:
    """A mark on the edge is cut in half. Half a mark is 3 points wide, 1.2% of axes of 250 points."""
    means = {name: Mean(mean=0.5, half=0.1) for name in COSTS}
    latency_panel(means, COSTS, "RR@10").paint(axes)
    marks = [line.get_xdata()[0] for line in axes.lines if line.get_marker() not in ("", "_", "None")]
    left, right = axes.get_xlim()
    assert marks == pytest.approx([3.579, 5.0])
    assert left == 0 and all(0.02 * right < mark < 0.97 * right for mark in marks)
