"""The table of systems, what stands in which column of differences; the ceiling; CSV; figures that repeat."""

from pathlib import Path

import polars as pl
import pytest
from matplotlib.image import imread

from gnn_encoder.evaluation.ceiling import Ceiling, Share
from gnn_encoder.evaluation.significance import Comparison
from gnn_encoder.presenting.compared import latency_panel, similarity_panel
from gnn_encoder.presenting.figures import write_png
from gnn_encoder.presenting.quality import (
    ceiling_table,
    means_of,
    measures_of,
    recall_of,
    recall_panel,
    results_of,
    results_table,
    systems_panel,
)
from gnn_encoder.presenting.tables import markdown, titled

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


def against(baseline: str, difference: float) -> Comparison:
    low, high = difference - 0.01, difference + 0.01
    return Comparison(baseline=baseline, difference=difference, low=low, high=high, p=0.01, p_holm=0.02, queries=10)


def shown(
    systems: list[str], reference: dict[str, Comparison], own: dict[str, Comparison]
) -> tuple[list[str], list[list[str]]]:
    means = {"test": {system: {"RR@10": 0.5} for system in systems}}
    (found,) = results_of("all", means, {"test": reference}, {"test": own})
    table = results_table(found, "RR@10")
    return table.columns[2:], [cells[2:] for cells in table.rows]


GNN = {"gnn_encoder": against("dual_encoder", 0.05)}


def test_a_baseline_that_is_m_de_stands_in_one_column() -> None:
    reference, own = GNN | {"pair": against("dual_encoder", -0.02)}, GNN | {"pair": against("pair_no_psr", 0.03)}
    columns, rows = shown(["dual_encoder", "gnn_encoder", "pair"], reference, own)
    assert columns == ["RR@10 against M_de", "RR@10 against its baseline"]
    assert rows == [
        ["–", "–"],
        ["▲ +5.0 [+4.0, +6.0]\np = 0.02", "–"],
        ["▼ -2.0 [-3.0, -1.0]\np = 0.02", "▲ +3.0 [+2.0, +4.0]\np = 0.02 (PAIR without L_P)"],
    ]


def test_a_column_without_differences_is_left_out() -> None:
    assert shown(["gnn_encoder"], GNN, GNN)[0] == ["RR@10 against M_de"]
    assert shown(["gnn_encoder"], {}, GNN)[0] == ["RR@10 against its baseline"]
    assert shown(["dual_encoder"], {}, {})[0] == []


def test_table_in_the_terminal() -> None:
    (found,) = results_of("gnn_encoder", {"test": MEANS}, {}, {"test": GAIN})
    assert titled(results_table(found, "RR@10")).splitlines() == [
        "Test queries: GNN-encoder, points of 100",
        "",
        "| System      | RR@10 |  R@5 | R@100 |            RR@10 against its baseline |",
        "| ----------- | ----: | ---: | ----: | ------------------------------------: |",
        "| M_de        |  45.1 | 60.0 |  90.0 |                                     – |",
        "| GNN-encoder |  47.7 | 62.5 | 100.0 | ▲ +2.5 [+1.8, +3.3], p = 2e-13 (M_de) |",
    ]


def test_the_way_to_the_ceiling() -> None:
    systems = {"gnn_encoder": Share(mean=0.5, share=0.254, low=-0.1, high=None)}
    found = ceiling_table(Ceiling(measure="RR@10", queries=9, base=0.4, ceiling=0.8, systems=systems), "dev")
    assert found.title == "Dev queries: the way to M_de, reranked, points of 100"
    assert found.note == "9 queries; – where there is no bound"
    assert markdown(found).splitlines() == [
        "| System         | RR@10 | share of the way | 95% interval |",
        "| -------------- | ----: | ---------------: | -----------: |",
        "| M_de           |  40.0 |                  |              |",
        "| GNN-encoder    |  50.0 |              25% |    -10% to – |",
        "| M_de, reranked |  80.0 |                  |              |",
    ]
    nowhere = {"gnn_encoder": Share(mean=0.5, share=None, low=None, high=None)}
    found = ceiling_table(Ceiling(measure="RR@10", queries=9, base=0.4, ceiling=0.4, systems=nowhere), "test")
    assert found.rows[1] == ["GNN-encoder", "50.0", "–", "– to –"]


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


@pytest.mark.parametrize("name", ["systems", "recall", "recall_without_recall", "costs", "similarities"])
def test_figures_are_drawn_and_repeat(tmp_path: Path, name: str) -> None:
    values = pl.DataFrame(
        [(s, d, f"q{i}", "RR@10", i / 3) for s in MEANS for d in ("dev", "test") for i in range(3)],
        schema=["system", "split", "qid", "measure", "value"],
        orient="row",
    )
    for path in (tmp_path / "a.png", tmp_path / "b.png"):
        if name == "systems":
            write_png(path, [systems_panel(of, split, "RR@10") for split, of in means_of(values).items()])
        elif name == "costs":
            named = values.filter(split="test").with_columns(pl.col("system").replace("dual_encoder", "dual_cross"))
            write_png(path, [latency_panel(means_of(named)["test"], COSTS, "RR@10")])
        elif name == "similarities":
            found = {"s(p+,q)": 0.8, "s(p+,q) std": 0.1, "s(p+,p-)": 0.6, "s(p+,p-) std": 0.2}
            write_png(path, [similarity_panel({"pair": found, "pair_no_psr": found})])
        else:
            means = MEANS if name == "recall" else {"bm25": {"RR@10": 0.1}}
            write_png(path, [recall_panel(recall_of({"test": means}), "test")])
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert imread(tmp_path / "a.png").std() > 0.01
