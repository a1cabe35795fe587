from pathlib import Path

import polars as pl
import pytest

from gnn_encoder.base.tables import QRELS, write_table
from gnn_encoder.pipeline import project
from gnn_encoder.presenting import won_and_lost
from gnn_encoder.presenting.won_and_lost import won_and_lost_table


def test_what_gains_stands_first_and_what_loses_last(one_branch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """M_de has the relevant p1 at rank 2, GNN-encoder at rank 1; the first query is the same for both."""
    monkeypatch.setattr(won_and_lost, "LONGEST", 20)
    found = won_and_lost_table("gnn_encoder", "RR@10", "passage")
    assert found and found.columns == ["query", "first by M_de", "first by GNN-encoder", "RR@10"]
    link = "see …"
    assert found.rows == [
        ["<script>alert('second')</script>", link, "relevant: <i>title</i> …", "0.50 → 1.00"],
        ["third?", link, "{{ 7 * 7 }} {% raw …", "0.33 → 0.00"],
    ]
    assert found.note == "1 queries better, 1 worse, 1 the same"


def test_a_branch_without_a_main_system_has_none(one_branch: Path) -> None:
    assert won_and_lost_table("distilled", "RR@10", "passage") is None


def test_relevant_passages_by_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    judged = pl.DataFrame({"qid": ["q", "q"], "pid": ["a#1", "b#0"], "grade": pl.Series([1, 0], dtype=pl.Int32)})
    write_table(project.qrels("test"), QRELS, [judged.to_arrow()])
    shown = pl.DataFrame({"qid": ["q", "q", "q", "other"], "pid": ["a#0", "a#1", "b#0", "a#1"]})
    assert won_and_lost._relevant(shown, "passage") == {("q", "a#1")}
    assert won_and_lost._relevant(shown, "document") == {("q", "a#0"), ("q", "a#1")}
