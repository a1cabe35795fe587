from pathlib import Path

import pytest

from gnn_encoder.presenting import won_and_lost
from gnn_encoder.presenting.won_and_lost import won_and_lost_table


def test_what_gains_stands_first_and_what_loses_last(one_branch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """M_de has the relevant p1 at rank 2, GNN-encoder at rank 1; the first query is the same for both."""
    monkeypatch.setattr(won_and_lost, "LONGEST", 20)
    found = won_and_lost_table("gnn_encoder", "RR@10")
    assert found and found.columns == ["query", "first by M_de", "first by GNN-encoder", "RR@10"]
    link = "see …"
    assert found.rows == [
        ["<script>alert('second')</script>", link, "relevant: <i>title</i> …", "0.50 → 1.00"],
        ["third?", link, "{{ 7 * 7 }} {% raw …", "0.33 → 0.00"],
    ]
    assert found.note == "1 queries better, 1 worse, 1 the same"


def test_a_branch_without_a_main_system_has_none(one_branch: Path) -> None:
    assert won_and_lost_table("distilled", "RR@10") is None
