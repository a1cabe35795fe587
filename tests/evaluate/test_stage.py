"""stages/evaluate.py on runs of a few queries."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from gnn_encoder.base.runs import write_run
from gnn_encoder.base.tables import PASSAGES, QRELS, QUERIES
from gnn_encoder.evaluate.slices import About, Properties
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.project import registry
from gnn_encoder.pipeline.stage import find_stage

from ..project import declare, end_stage, set_params
from ..texts import write

PIDS = pa.chunked_array([["p0", "p1", "p2"]])
# Passage rows by query: q0's answer is p0, q1's p1, q2's p2.
SPECIAL = {
    "bm25": [[1, 0, -1], [-1, -1, -1], [0, 1, 2]],
    "retriever": [[1, 0, 2], [0, 1, 2], [0, 1, 2]],
    "query_mean": [[0, 1, 2], [0, 1, 2], [0, 2, 1]],
    "gnn_encoder": [[0, 1, 2], [1, 0, 2], [0, 2, 1]],
    "dual_encoder_distilled": [[0, 1, 2], [1, 0, 2], [2, 0, 1]],
}
OTHERS = [[0, 1, 2], [0, 1, 2], [0, 1, 2]]
BRANCH = tuple(registry().branches["gnn_encoder"].systems)
RANKINGS = {system: SPECIAL.get(system, OTHERS) for system in (*BRANCH, "dual_encoder_distilled")}

ABOUT = About(thirds=(0.5, 0.75), passage_length=48, left_out=())


def evaluate(folder: Path, branch: str = "gnn_encoder") -> subprocess.CompletedProcess[str]:
    for path in find_stage("evaluate", [branch], folder).inputs:  # what needs a model or a graph is replaced
        if not (folder / path).suffix:
            (folder / path).mkdir(parents=True, exist_ok=True)
    return end_stage(folder, "evaluate", branch, query_properties=query_properties, informed=informed)


def query_properties(params: Params) -> dict[str, Properties]:
    """In the place of what needs a model."""
    thirds = ["lower third", "middle third", "upper third"]
    labels = {"similarity": thirds, "labelled": ["no", "no", "yes"], "cut": ["yes", "yes", None]}
    table = pl.DataFrame({"qid": ["q0", "q1", "q2"], **labels})
    return dict.fromkeys(("dev", "test"), (table, ABOUT))


def informed(params: Params) -> dict[str, Any]:
    """In the place of what needs a graph."""
    return {"attention": {}, "counts": {}, "cases": []}


def write_queries(root: Path, answers: list[list[str]]) -> None:
    for split in ("dev", "test"):
        write(root / project.queries(split), QUERIES, ["q0", "q1", "q2"], ["what?"] * 3, answers)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose systems have been measured, and what was told. Read only: `folder` is a copy of it."""
    root = tmp_path_factory.mktemp("measured")
    declare(root)
    write(root / project.PASSAGES, PASSAGES, ["p0", "p1", "p2"], [""] * 3, ["a hot oven", "a pan", "salt"])
    write_queries(root, [[], [], []])
    for split in ("dev", "test"):
        write(root / project.qrels(split), QRELS, ["q0", "q1", "q2"], ["p0", "p1", "p2"], [1, 1, 1])
        for system, rows in RANKINGS.items():
            path = root / project.run_file(system, split)
            write_run(path, ["q0", "q1", "q2"], PIDS, np.array(rows), np.array([[3.0, 2.0, 1.0]] * 3), system)
    for name in ("queries/train", "qrels/train"):
        shutil.copy(
            root / project.PREPARED / f"{name.replace('train', 'dev')}.parquet", root / f"data/prepared/{name}.parquet"
        )
    (root / project.POSITIVES).parent.mkdir(parents=True)
    shutil.copy(root / project.qrels("dev"), root / project.POSITIVES)
    done = evaluate(root)
    assert done.returncode == 0, done.stderr
    (root / "told.txt").write_text(done.stderr)
    return root


@pytest.fixture
def folder(measured: Path, tmp_path: Path) -> Path:
    return shutil.copytree(measured, tmp_path / "project")


def test_metrics(measured: Path) -> None:
    metrics = json.loads((measured / "metrics" / "gnn_encoder" / "test.json").read_text())
    reciprocal_ranks = dict.fromkeys(BRANCH, (1 + 1 / 2 + 1 / 3) / 3) | {
        "bm25": (1 / 2 + 0 + 1 / 3) / 3,
        "retriever": (1 / 2 + 1 / 2 + 1 / 3) / 3,
        "query_mean": (1 + 1 / 2 + 1 / 2) / 3,
        "gnn_encoder": (1 + 1 + 1 / 2) / 3,
    }
    assert tuple(metrics) == BRANCH
    assert {name: values["RR@10"] for name, values in metrics.items()} == pytest.approx(reciprocal_ranks, abs=1e-12)
    significance = json.loads((measured / "metrics" / "gnn_encoder" / "significance.json").read_text())
    same = {"baseline": "dual_encoder", "difference": 0.0, "low": 0.0, "high": 0.0, "p": 1.0, "p_holm": 1.0}
    assert significance["dev"]["no_gnn"] == same | {"queries": 3}
    assert significance["test"]["gnn_encoder"]["difference"] == pytest.approx(2 / 9, abs=1e-12)
    assert "dual_encoder" not in significance["test"]
    assert "| GNN-encoder" in (measured / "told.txt").read_text()
    assert "NaN" not in (measured / "metrics" / "gnn_encoder" / "significance.json").read_text()


def test_a_branch_is_compared_with_a_system_of_another(folder: Path) -> None:
    done = evaluate(folder, "distilled")
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / "metrics" / "distilled" / "significance.json").read_text())["test"]
    assert list(found) == ["dual_encoder_distilled"]
    assert found["dual_encoder_distilled"]["baseline"] == "dual_encoder"
    assert found["dual_encoder_distilled"]["difference"] == pytest.approx((0 + 1 / 2 + 2 / 3) / 3, abs=1e-12)
    sliced = json.loads((folder / "metrics" / "distilled" / "slices.json").read_text())["dev"]
    assert sliced["baseline"] == "dual_encoder"
    assert list(sliced["slices"]["labelled"]["no"]["against"]) == ["dual_encoder_distilled"]


def test_slices_and_the_claim(measured: Path) -> None:
    found = json.loads((measured / "metrics" / "gnn_encoder" / "slices.json").read_text())["test"]
    assert (found["measure"], found["baseline"], found["about"]["thirds"]) == ("RR@10", "dual_encoder", [0.5, 0.75])
    no = found["slices"]["labelled"]["no"]
    assert (no["queries"], no["means"]["dual_encoder"], tuple(no["means"])) == (2, 0.75, BRANCH)
    assert no["against"]["gnn_encoder"]["difference"] == 0.25 and "dual_encoder" not in no["against"]
    assert found["slices"]["cut"]["yes"]["queries"] == 2, "q2 has no label"
    claim, told = json.loads((measured / "metrics" / "gnn_encoder" / "claim.json").read_text()), measured / "told.txt"
    assert (claim["system"], claim["best"], claim["better"]) == ("gnn_encoder", "query_mean", {})
    assert claim["against"]["test"]["difference"] == pytest.approx(1 / 6, abs=1e-12)
    assert "| nearest training query: middle third (0.500 to 0.750) " in told.read_text()
    assert "GNN-encoder against M_de + mean of labelled queries, " in told.read_text().splitlines()[-1]


def test_per_query_values_and_plots(folder: Path) -> None:
    plots = folder / "plots" / "gnn_encoder"
    assert plots.is_dir()
    (plots / "mine.txt").write_text("kept")
    assert evaluate(folder).returncode == 0
    values = pl.read_parquet(folder / "data" / "evaluation" / "gnn_encoder" / "values.parquet")
    assert values.columns == ["system", "split", "qid", "measure", "value"]
    found = values.filter(system="gnn_encoder", split="dev", measure="RR@10").select("qid", "value").rows()
    assert found == [("q0", 1.0), ("q1", 1.0), ("q2", 0.5)]
    assert sorted(path.name for path in plots.iterdir()) == [
        *("measures.csv", "mine.txt", "recall.csv", "recall.png", "systems.png")
    ]


def test_a_split_judged_by_answers(folder: Path) -> None:
    """The same project: q0's answer is in p0 and p2, q1's nowhere, q2 has none."""
    write_queries(folder, [["Salt", "oven"], ["gas"], []])
    for split in ("dev", "test"):
        write(folder / project.qrels(split), QRELS, [], [], [])
    set_params(folder, evaluate__measures=["RR@10", "Success@1", "Success@3", "P@3"])
    expected = {"bm25": [1 / 2 / 3, 0, 1 / 3, 1 / 9], "dual_encoder": [1 / 3, 1 / 3, 1 / 3, 2 / 9]}
    assert evaluate(folder).returncode == 0
    metrics = json.loads((folder / "metrics" / "gnn_encoder" / "test.json").read_text())
    for system, values in expected.items():
        assert list(metrics[system]) == ["RR@10", "Success@1", "Success@3", "P@3"]
        assert list(metrics[system].values()) == pytest.approx(values, abs=1e-12), system
    values = pl.read_parquet(folder / project.measured("bm25") / "values.parquet")
    assert values.filter(split="test", measure="RR@10").select("qid", "value").rows() == [
        *(("q0", 0.5), ("q1", 0.0), ("q2", 0.0))
    ]


def test_a_bad_run_leaves_everything_as_it_was(folder: Path) -> None:
    before = {path: path.read_bytes() for path in (folder / "data" / "measures").rglob("*") if path.is_file()}
    run = folder / project.run_file("no_gnn", "test")
    run.write_bytes(run.read_bytes()[:40])
    done = evaluate(folder)
    assert done.returncode == 2
    assert done.stderr.startswith("error: data/runs/no_gnn/test.trec.gz: truncated") and done.stderr.count("\n") == 1
    assert before and {path: path.read_bytes() for path in before} == before
