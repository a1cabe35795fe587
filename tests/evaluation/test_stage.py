"""stages/evaluate.py on runs of a few questions."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import yaml

from gnn_encoder import project
from gnn_encoder.evaluation.runs import write_run
from gnn_encoder.records import QRELS
from gnn_encoder.storage.tables import write_table

ROOT = Path(__file__).parents[2]
PIDS = pa.chunked_array([["p0", "p1", "p2"]])
# Passage rows by question: q0's answer is p0, q1's p1, q2's p2.
RANKINGS = {
    "bm25": [[1, 0, -1], [-1, -1, -1], [0, 1, 2]],
    "retriever": [[1, 0, 2], [0, 1, 2], [0, 1, 2]],
    "dual_encoder": [[0, 1, 2], [0, 1, 2], [0, 1, 2]],
    "no_gnn": [[0, 1, 2], [0, 1, 2], [0, 1, 2]],
    "gnn_encoder": [[0, 1, 2], [1, 0, 2], [0, 2, 1]],
}


def evaluate(folder: Path) -> subprocess.CompletedProcess[str]:
    script = str(ROOT / "stages" / "evaluate.py")
    return subprocess.run([sys.executable, script], cwd=folder, capture_output=True, text=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    for split in ("dev", "test"):
        table = pa.table([["q0", "q1", "q2"], ["p0", "p1", "p2"], [1, 1, 1]], schema=QRELS)
        write_table(tmp_path / project.qrels(split), QRELS, [table])
        for system, rows in RANKINGS.items():
            path = tmp_path / project.run_file(system, split)
            write_run(path, ["q0", "q1", "q2"], PIDS, np.array(rows), np.array([[3.0, 2.0, 1.0]] * 3), system)
    return tmp_path


def test_metrics(folder: Path) -> None:
    done = evaluate(folder)
    assert done.returncode == 0, done.stderr
    metrics = json.loads((folder / "metrics" / "test.json").read_text())
    assert list(metrics) == list(project.SYSTEMS)
    reciprocal_ranks = {
        "bm25": (1 / 2 + 0 + 1 / 3) / 3,
        "retriever": (1 / 2 + 1 / 2 + 1 / 3) / 3,
        "dual_encoder": (1 + 1 / 2 + 1 / 3) / 3,
        "no_gnn": (1 + 1 / 2 + 1 / 3) / 3,
        "gnn_encoder": (1 + 1 + 1 / 2) / 3,
    }
    assert {name: values["RR@10"] for name, values in metrics.items()} == pytest.approx(reciprocal_ranks, abs=1e-12)
    significance = json.loads((folder / "metrics" / "significance.json").read_text())
    same = {"difference": 0.0, "low": 0.0, "high": 0.0, "p": 1.0, "queries": 3}
    assert significance["dev"]["no_gnn"] == same
    assert significance["test"]["gnn_encoder"]["difference"] == pytest.approx(2 / 9, abs=1e-12)
    assert "dual_encoder" not in significance["test"]
    assert "| gnn_encoder" in done.stderr and "NaN" not in (folder / "metrics" / "significance.json").read_text()


def test_per_query_values_and_plots(folder: Path) -> None:
    (folder / "data" / "mgt").mkdir()
    (folder / "data" / "mgt" / "history.csv").write_text("phase,step,loss,dev_rr10\ngnn,1,2.0,\ngnn,2,,0.4\n")
    (folder / "plots").mkdir()
    (folder / "plots" / "mine.txt").write_text("kept")
    assert evaluate(folder).returncode == 0
    values = pl.read_parquet(folder / "data" / "evaluation" / "per_query.parquet")
    assert values.columns == ["system", "split", "qid", "measure", "value"]
    found = values.filter(system="gnn_encoder", split="dev", measure="RR@10").select("qid", "value").rows()
    assert found == [("q0", 1.0), ("q1", 1.0), ("q2", 0.5)]
    assert sorted(path.name for path in (folder / "plots").iterdir()) == [
        *("measures.csv", "mine.txt", "recall.csv", "recall.png", "systems.png", "training.png")
    ]


def test_same_metrics_twice(folder: Path) -> None:
    evaluate(folder)
    first = {path.name: path.read_bytes() for path in (folder / "metrics").iterdir()}
    evaluate(folder)
    assert {path.name: path.read_bytes() for path in (folder / "metrics").iterdir()} == first


def test_a_bad_run_leaves_everything_as_it_was(folder: Path) -> None:
    evaluate(folder)
    before = {path: path.read_bytes() for name in ("metrics", "plots") for path in (folder / name).iterdir()}
    run = folder / project.run_file("no_gnn", "test")
    run.write_bytes(run.read_bytes()[:40])
    done = evaluate(folder)
    assert done.returncode == 2
    assert done.stderr.startswith("error: data/runs/no_gnn/test.trec.gz: truncated") and done.stderr.count("\n") == 1
    assert {path: path.read_bytes() for path in before} == before


def test_unknown_measure(folder: Path) -> None:
    params = yaml.safe_load((folder / "params.yaml").read_text())
    params["evaluate"]["measures"] = ["RRR@10"]
    (folder / "params.yaml").write_text(yaml.safe_dump(params))
    done = evaluate(folder)
    assert (done.returncode, done.stderr) == (
        2,
        "error: evaluate.measures has 'RRR@10': no measure of ir-measures; did you mean RR@10?\n",
    )
