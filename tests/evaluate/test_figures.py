"""CSV for `dvc plots`, and figures that repeat."""

from pathlib import Path

import pytest
from matplotlib.image import imread

from gnn_encoder.evaluate.report import measures_of, recall_of, write_figures

from .conftest import values_of

MEANS = {
    "dual_encoder": {"RR@10": 0.4512, "R@5": 0.6, "R@100": 0.9},
    "gnn_encoder": {"RR@10": 0.4766, "R@5": 0.625, "R@100": 1.0},
}


def test_csv() -> None:
    lines = measures_of({"dev": MEANS}).write_csv().splitlines()
    assert lines[:2] == ["system,split,measure,value", "dual_encoder,dev,RR@10,0.4512"] and len(lines) == 7
    odd = {"R@100": 0.9, "RR@10": 0.1, "R(rel=2)@5": 0.2, "R@20": 0.7, "Success@5": 0.3}
    assert recall_of({"test": MEANS | {"bm25": odd}}).write_csv().splitlines() == [
        "system,split,measure,k,recall",
        "dual_encoder,test,R,5,0.6",
        "dual_encoder,test,R,100,0.9",
        "gnn_encoder,test,R,5,0.625",
        "gnn_encoder,test,R,100,1.0",
        "bm25,test,R,20,0.7",
        "bm25,test,R,100,0.9",
    ]
    by_answers = recall_of({"test": {"bm25": {"Success@20": 0.75, "RR@10": 0.1, "Success@5": 0.5}}})
    assert by_answers.rows() == [("bm25", "test", "Success", 5, 0.5), ("bm25", "test", "Success", 20, 0.75)]


@pytest.mark.parametrize("means", [MEANS, {"bm25": {"RR@10": 0.1}}], ids=["recall", "none"])
def test_figures_are_drawn_and_repeat(tmp_path: Path, means: dict[str, dict[str, float]]) -> None:
    values = values_of({system: [0.0, 1 / 3, 2 / 3] for system in means})
    for name in ("a", "b"):
        write_figures(tmp_path / name, values, {"dev": means, "test": means}, "RR@10")
    for figure in ("systems.png", "recall.png"):
        assert (tmp_path / "a" / figure).read_bytes() == (tmp_path / "b" / figure).read_bytes()
        assert imread(tmp_path / "a" / figure).std() > 0.01
