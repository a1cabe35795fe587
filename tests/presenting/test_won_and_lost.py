from pathlib import Path

import polars as pl
import pytest

from gnn_encoder.core.records import QRELS
from gnn_encoder.core.storage.tables import write_table
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.presenting import won_and_lost
from gnn_encoder.presenting.params import Report


def test_fewer_queries_and_passages_on_demand(one_branch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(won_and_lost, "LONGEST", 9)
    found = won_and_lost.won_and_lost("gnn_encoder", "RR@10", load_params().evaluate, Report(queries=1, passages=1))
    assert found and (found.better, found.worse, found.same) == (1, 1, 1)
    ((won,), (lost,)) = found.won, found.lost
    assert (won.text, won.values) == ("<script>alert('second')</script>", [0.5, 1.0])
    assert [[(one.pid, one.text, one.relevant) for one in side] for side in won.passages] == [
        [("p0", "plain wo…", False)],
        [("p1", "<i>title…", True)],
    ]
    assert lost.text == "third?" and lost.values == [pytest.approx(1 / 3), 0.0]


def test_a_branch_without_a_main_system_has_none(one_branch: Path) -> None:
    assert won_and_lost.won_and_lost("distilled", "RR@10", load_params().evaluate, load_params().report) is None


def test_relevant_passages_by_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    judged = pl.DataFrame({"qid": ["q", "q"], "pid": ["a#1", "b#0"], "grade": pl.Series([1, 0], dtype=pl.Int32)})
    write_table(project.qrels("test"), QRELS, [judged.to_arrow()])
    shown = pl.DataFrame({"qid": ["q", "q", "q", "other"], "pid": ["a#0", "a#1", "b#0", "a#1"]})
    assert won_and_lost._relevant(shown, "passage") == {("q", "a#1")}
    assert won_and_lost._relevant(shown, "document") == {("q", "a#0"), ("q", "a#1")}
