"""Stage embed_edges computes M_ce's features only where the GNN reads them."""

from pathlib import Path

import pytest

from gnn_encoder.base.files import MANIFEST
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.experiment import lay_over
from gnn_encoder.pipeline.stage import find_stage

from ..project import call_stage, declare


def test_nothing_is_embedded_without_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(tmp_path)
    monkeypatch.chdir(tmp_path)
    lay_over(["mgt.edge_features=none"])
    for path in find_stage("embed_edges", []).inputs:  # empty: reading any of them would fail
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    call_stage("embed_edges")
    assert [path.name for path in project.EDGE_FEATURES.rglob("*")] == [MANIFEST]
