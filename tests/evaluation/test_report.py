from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from matplotlib.image import imread

from gnn_encoder.evaluation import report
from gnn_encoder.evaluation.costs import Costs
from gnn_encoder.evaluation.significance import Comparison

MEANS = {
    "dual_encoder": {"RR@10": 0.4512, "R@5": 0.6, "R@100": 0.9},
    "gnn_encoder": {"RR@10": 0.4766, "R@5": 0.625, "R@100": 1.0},
}
GAIN = {
    "gnn_encoder": Comparison(
        baseline="dual_encoder", difference=0.0254, low=0.018, high=0.0328, p=1e-13, p_holm=2.4e-13, queries=2000
    )
}
COSTS = {
    "gnn_encoder": Costs(
        vectors_a_passage=1.0, bytes_a_passage=1536.4, encode_ms=2.345, search_ms=1.234, training_seconds=600.4
    ),
    "dual_cross": Costs(
        vectors_a_passage=3.0, bytes_a_passage=4608.0, encode_ms=2.0, search_ms=3.0, training_seconds=None
    ),
}


def test_markdown() -> None:
    assert report.markdown_table(MEANS, GAIN, "RR@10").splitlines() == [
        "| system       | RR@10 |  R@5 | R@100 | RR@10 against |      | 95% interval | p (Holm) |",
        "| ------------ | ----: | ---: | ----: | ------------: | ---: | -----------: | -------: |",
        "| dual_encoder |  45.1 | 60.0 |  90.0 |               |      |              |          |",
        "| gnn_encoder  |  47.7 | 62.5 | 100.0 |  dual_encoder | +2.5 | +1.8 to +3.3 |    2e-13 |",
    ]


def test_costs_table() -> None:
    assert report.costs_table(COSTS).splitlines() == [
        "| system      | vectors a passage | bytes a passage | encode ms | search ms | training s |",
        "| ----------- | ----------------: | --------------: | --------: | --------: | ---------: |",
        "| gnn_encoder |                 1 |            1536 |      2.35 |      1.23 |        600 |",
        "| dual_cross  |                 3 |            4608 |      2.00 |      3.00 |            |",
    ]


@pytest.mark.parametrize(("p", "text"), [(1.0, "1.00"), (0.042, "0.04"), (0.0042, "0.004"), (0.0, "0")])
def test_p_is_readable(p: float, text: str) -> None:
    found = {"gnn_encoder": replace(GAIN["gnn_encoder"], difference=-0.01, low=-0.02, high=0.0, p_holm=p)}
    row = report.markdown_table(MEANS, found, "RR@10").splitlines()[-1]
    assert [cell.strip() for cell in row.split("|")][-4:-1] == ["-1.0", "-2.0 to +0.0", text]


def test_csv(tmp_path: Path) -> None:
    report.write_measures_csv(tmp_path / "measures.csv", {"dev": MEANS})
    lines = (tmp_path / "measures.csv").read_text().splitlines()
    assert lines[:2] == ["system,split,measure,value", "dual_encoder,dev,RR@10,0.4512"] and len(lines) == 7
    report.write_recall_csv(tmp_path / "recall.csv", {"test": MEANS})
    assert (tmp_path / "recall.csv").read_text().splitlines() == [
        "system,split,measure,k,recall",
        "dual_encoder,test,R,5,0.6",
        "dual_encoder,test,R,100,0.9",
        "gnn_encoder,test,R,5,0.625",
        "gnn_encoder,test,R,100,1.0",
    ]
    by_answers = {"bm25": {"RR@10": 0.1, "Success@20": 0.75, "Success@5": 0.5}}
    report.write_recall_csv(tmp_path / "recall.csv", {"test": by_answers})
    assert (tmp_path / "recall.csv").read_text().splitlines()[1:] == [
        "bm25,test,Success,5,0.5",
        "bm25,test,Success,20,0.75",
    ]


def test_recalls() -> None:
    assert report.recalls(["R@100", "RR@10", "R(rel=2)@5", "R@20", "nDCG@10", "Success@5"]) == [("R", 20), ("R", 100)]
    assert report.recalls(["Success@20", "RR@10", "Success@5"]) == [("Success", 5), ("Success", 20)]


@pytest.mark.parametrize("name", ["bars", "recall", "recall_without_recall", "training", "costs", "similarities"])
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
        if name == "bars":
            report.draw_bars(path, values, "RR@10")
        elif name == "costs":
            named = values.filter(split="test").with_columns(pl.col("system").replace("dual_encoder", "dual_cross"))
            report.draw_costs(path, named, COSTS, "RR@10")
        elif name == "similarities":
            found = {"s(p+,q)": 0.8, "s(p+,q) std": 0.1, "s(p+,p-)": 0.6, "s(p+,p-) std": 0.2}
            report.draw_similarities(path, {"pair": found, "pair_no_psr": found})
        elif name == "training":
            report.draw_training(path, history)
        else:
            means = MEANS if name == "recall" else {"bm25": {"RR@10": 0.1}}
            report.draw_recall(path, {"dev": means, "test": means})
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert imread(tmp_path / "a.png").std() > 0.01
