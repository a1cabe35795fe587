"""What `evaluate` and `compare` show: literal tables in the terminal, literal CSV, pictures that repeat."""

import logging
from pathlib import Path

import polars as pl
import pytest
from matplotlib.image import imread

from gnn_encoder.evaluation.params import Evaluate
from gnn_encoder.evaluation.significance import Comparison
from gnn_encoder.presenting.costs import cost_panels
from gnn_encoder.presenting.evaluation import log_results, write_measures_csv
from gnn_encoder.presenting.figure import write_png
from gnn_encoder.presenting.means import means_of
from gnn_encoder.presenting.recall import recall_panel, write_recall_csv
from gnn_encoder.presenting.results import systems_panel
from gnn_encoder.presenting.similarity import similarity_panel
from gnn_encoder.presenting.training import draw_training

from .test_costs import COSTS

MEANS = {
    "dual_encoder": {"RR@10": 0.4512, "R@5": 0.6, "R@100": 0.9},
    "gnn_encoder": {"RR@10": 0.4766, "R@5": 0.625, "R@100": 1.0},
}
GAIN = {
    "gnn_encoder": Comparison(
        baseline="dual_encoder", difference=0.0254, low=0.018, high=0.0328, p=1e-13, p_holm=2.4e-13, queries=2000
    )
}


def test_table_in_the_terminal(caplog: pytest.LogCaptureFixture) -> None:
    section = Evaluate(measures=["RR@10", "R@5", "R@100"], significance="RR@10", answers="string")
    with caplog.at_level(logging.INFO):
        log_results("gnn_encoder", {"test": MEANS}, {}, {"test": GAIN}, section)
    assert caplog.messages[0].splitlines() == [
        "",
        "Test queries: GNN-encoder, points of 100",
        "",
        "| System      | RR@10 |  R@5 | R@100 |            RR@10 against its baseline |",
        "| ----------- | ----: | ---: | ----: | ------------------------------------: |",
        "| M_de        |  45.1 | 60.0 |  90.0 |                                     – |",
        "| GNN-encoder |  47.7 | 62.5 | 100.0 | ▲ +2.5 [+1.8, +3.3], p = 2e-13 (M_de) |",
    ]


def test_csv(tmp_path: Path) -> None:
    write_measures_csv(tmp_path / "measures.csv", {"dev": MEANS})
    lines = (tmp_path / "measures.csv").read_text().splitlines()
    assert lines[:2] == ["system,split,measure,value", "dual_encoder,dev,RR@10,0.4512"] and len(lines) == 7
    write_recall_csv(tmp_path / "recall.csv", {"test": MEANS})
    assert (tmp_path / "recall.csv").read_text().splitlines() == [
        "system,split,measure,k,recall",
        "dual_encoder,test,R,5,0.6",
        "dual_encoder,test,R,100,0.9",
        "gnn_encoder,test,R,5,0.625",
        "gnn_encoder,test,R,100,1.0",
    ]
    by_answers = {"bm25": {"RR@10": 0.1, "Success@20": 0.75, "Success@5": 0.5}}
    write_recall_csv(tmp_path / "recall.csv", {"test": by_answers})
    assert (tmp_path / "recall.csv").read_text().splitlines()[1:] == [
        "bm25,test,Success,5,0.5",
        "bm25,test,Success,20,0.75",
    ]


@pytest.mark.parametrize("name", ["systems", "recall", "recall_without_recall", "training", "costs", "similarities"])
def test_pictures_are_drawn_and_repeat(tmp_path: Path, name: str) -> None:
    values = pl.DataFrame(
        [(s, d, f"q{i}", "RR@10", i / 3) for s in MEANS for d in ("dev", "test") for i in range(3)],
        schema=["system", "split", "qid", "measure", "value"],
        orient="row",
    )
    history = pl.DataFrame(
        [("gnn", 1, 2.0, None), ("gnn", 2, None, 0.4), ("joint", 3, 1.5, float("nan"))],
        schema=["phase", "step", "loss", "dev_rr10"],
        orient="row",
    )
    for path in (tmp_path / "a.png", tmp_path / "b.png"):
        if name == "systems":
            write_png(path, [systems_panel(of, split, "RR@10") for split, of in means_of(values).items()])
        elif name == "costs":
            named = values.filter(split="test").with_columns(pl.col("system").replace("dual_encoder", "dual_cross"))
            write_png(path, cost_panels(means_of(named)["test"], COSTS, "RR@10"))
        elif name == "similarities":
            found = {"s(p+,q)": 0.8, "s(p+,q) std": 0.1, "s(p+,p-)": 0.6, "s(p+,p-) std": 0.2}
            write_png(path, [similarity_panel({"pair": found, "pair_no_psr": found})])
        elif name == "training":
            history.write_csv(tmp_path / "history.csv")
            draw_training(path, {"mgt": tmp_path / "history.csv"})
        else:
            means = MEANS if name == "recall" else {"bm25": {"RR@10": 0.1}}
            write_png(path, [recall_panel(means, split) for split in ("dev", "test")])
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert imread(tmp_path / "a.png").std() > 0.01
