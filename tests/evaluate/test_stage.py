"""stages/evaluate.py on runs of a few queries."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gnn_encoder.base.tables import QRELS
from gnn_encoder.pipeline import project

from ..project import set_params
from ..texts import write
from .conftest import BRANCH, evaluate, write_queries


def read(folder: Path, name: str, branch: str = "gnn_encoder") -> Any:
    text = (folder / project.METRICS / branch / f"{name}.json").read_text()
    assert "NaN" not in text
    return json.loads(text)


def test_metrics(measured: Path) -> None:
    metrics, significance = read(measured, "test"), read(measured, "significance")
    reciprocal_ranks = dict.fromkeys(BRANCH, (1 + 1 / 2 + 1 / 3) / 3) | {
        "bm25": (1 / 2 + 0 + 1 / 3) / 3,
        "untouched": (1 / 2 + 1 / 2 + 1 / 3) / 3,
        "nudge_n": (1 + 1 + 1 / 3) / 3,
        "gnn_encoder": (1 + 1 + 0) / 3,
    }
    assert tuple(metrics) == BRANCH
    assert {name: values["RR@10"] for name, values in metrics.items()} == pytest.approx(reciprocal_ranks, abs=1e-12)
    same = {"baseline": "dual_encoder", "difference": 0.0, "low": 0.0, "high": 0.0, "p": 1.0, "p_holm": 1.0}
    assert significance["dev"]["no_gnn"] == same | {"queries": 3}
    assert significance["test"]["gnn_encoder"]["difference"] == pytest.approx(1 / 18, abs=1e-12)
    assert "dual_encoder" not in significance["test"]
    assert "| GNN-encoder" in (measured / "told.txt").read_text()
    values = pl.read_parquet(measured / project.measured("gnn_encoder") / "values.parquet")
    assert values.columns == ["system", "split", "qid", "measure", "value"]
    found = values.filter(system="gnn_encoder", split="dev", measure="RR@10").select("qid", "value").rows()
    assert found == [("q0", 1.0), ("q1", 1.0), ("q2", 0.0)]
    plots = [path.name for path in (measured / project.PLOTS / "gnn_encoder").iterdir()]
    assert sorted(plots) == ["recall.png", "systems.png"]


def test_slices_and_the_claim(measured: Path) -> None:
    found, claim = read(measured, "slices")["test"], read(measured, "claim")
    told = [" ".join(line.split()) for line in (measured / "told.txt").read_text().splitlines()]
    assert (found["measure"], found["baseline"], found["about"]["thirds"]) == ("RR@10", "dual_encoder", [0.5, 0.75])
    no = found["slices"]["labelled"]["no"]
    assert (no["queries"], no["means"]["dual_encoder"], tuple(no["means"])) == (2, 0.75, BRANCH)
    assert no["against"]["gnn_encoder"]["difference"] == 0.25 and "dual_encoder" not in no["against"]
    assert found["slices"]["cut"]["yes"]["queries"] == 2, "q2 has no label"
    assert (claim["best"], claim["better"]) == ("nudge_n", {})
    assert claim["against"]["nudge_n"]["test"]["difference"] == pytest.approx(-1 / 9, abs=1e-12)
    thirds = {
        "lower third (below 0.500)": ("100.0", "100.0, +0.0"),
        "middle third (0.500 to 0.750)": ("50.0", "100.0, +50.0"),
        "upper third (from 0.750)": ("33.3", "0.0, -33.3"),
    }
    wide = "[-100.0, +100.0], p = 1.00"
    for line in (
        "| Slice | queries | M_de | control without GNN | GNN-encoder |",
        *(
            f"| nearest training query: {one} | 1 | {base} | {base}, +0.0 {wide} | {of} {wide} |"
            for one, (base, of) in thirds.items()
        ),
        "| a relevant passage is cut: yes | 2 | 75.0 | 75.0, +0.0 [+0.0, +0.0], p = 1.00 | "
        "100.0, +25.0 [-292.7, +342.7], p = 1.00 |",
    ):
        assert told.count(line) == 2, "on both splits"
    assert told[-9].startswith("GNN-encoder's RR@10 above control, NUDGE-N, ")
    assert claim["plus"]["test"]["difference"] == pytest.approx(-1 / 6, abs=1e-12), "1, 1/2, 1/3 beside 1, 1, 1/3"
    assert told[-5].startswith("GNN-encoder + labels + query bank (--system gnn_encoder_plus) above control, NUDGE-N: ")
    again = dict.fromkeys(("untouched", "untouched_plus", "dual_encoder", "no_gnn", "no_gnn_plus"), 0.5)
    again |= {"gnn_encoder": 0.25, "gnn_encoder_plus": 0.5}
    assert claim["again"] == again, "those with an index"
    assert told[-3].startswith(
        "RR@10 of training queries that are asked again: base model, untouched 50.0, base model + "
        "labels + query bank 50.0, M_de 50.0, "
    )
    assert told[-1] == "▼ GNN-encoder has lost what is known: it ranks labelled passages lower; try mgt.labels=false."


def test_a_split_judged_by_answers(folder: Path) -> None:
    """The same project: q0's answer is in p0 and p2, q1's nowhere, q2 has none."""
    for split in ("dev", "test"):
        write_queries(split, [["Plain", "quotes"], ["gas"], []])
        write(project.qrels(split), QRELS, [], [], [])
    set_params(folder, evaluate__measures=["RR@10", "Success@1", "Success@3", "P@3"])
    expected = {"bm25": [1 / 2 / 3, 0, 1 / 3, 1 / 9], "dual_encoder": [1 / 3, 1 / 3, 1 / 3, 2 / 9]}
    evaluate(folder)
    metrics = read(folder, "test")
    for system, values in expected.items():
        assert list(metrics[system]) == ["RR@10", "Success@1", "Success@3", "P@3"]
        assert list(metrics[system].values()) == pytest.approx(values, abs=1e-12), system
    values = pl.read_parquet(folder / project.measured("bm25") / "values.parquet")
    assert values.filter(split="test", measure="RR@10")["value"].to_list() == [0.5, 0.0, 0.0]
