"""stages/evaluate.py on runs of a few queries."""

import io
import json
import logging
import shutil
from contextlib import chdir, redirect_stderr
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gnn_encoder.base.tables import QRELS
from gnn_encoder.evaluate.slices import About, Properties
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.project import Registry, registry
from gnn_encoder.pipeline.stage import find_stage

from ..project import call_stage, declare, set_params
from ..texts import write
from .conftest import write_queries, write_runs, write_tables

# Passage rows by query: q0's answer is p0, q1's p1, q2's p2.
SPECIAL = {
    "bm25": [[1, 0, -1], [-1, -1, -1], [0, 1, 2]],
    "untouched": [[1, 0, 2], [0, 1, 2], [0, 1, 2]],
    "query_mean": [[0, 1, 2], [0, 1, 2], [0, 2, 1]],
    "gnn_encoder": [[0, 1, 2], [1, 0, 2], [0, 2, 1]],
    "pair_no_psr": [[0, 1, 2], [0, 1, 2], [0, 1, 2]],
    "pair": [[0, 1, 2], [1, 0, 2], [2, 0, 1]],
}
BRANCH = tuple(registry().branches["gnn_encoder"].systems)
RANKINGS = dict.fromkeys(BRANCH, [[0, 1, 2], [0, 1, 2], [0, 1, 2]]) | SPECIAL


NOTHING: dict[str, Any] = {"attention": {}, "counts": {}, "cases": []}  # in the place of what needs a graph


def evaluate(folder: Path, branch: str = "gnn_encoder", known: Registry | None = None) -> str:
    """Run the stage in this process; returns what it tells."""
    for path in find_stage("evaluate", [branch], folder).inputs:  # what needs a model or a graph is replaced
        if not (folder / path).suffix:
            (folder / path).mkdir(parents=True, exist_ok=True)
    told, level = io.StringIO(), logging.root.level
    with pytest.MonkeyPatch.context() as patch, chdir(folder), redirect_stderr(told):
        patch.setattr(logging.root, "handlers", [])  # so that the stage makes its own, which writes to stderr
        patch.setattr("gnn_encoder.evaluate.slices.query_properties", query_properties)
        call_stage("evaluate", branch, informed=lambda params: NOTHING, registry=lambda: known or registry())
    logging.root.setLevel(level)
    return told.getvalue()


def query_properties(params: Params) -> dict[str, Properties]:
    """In the place of what needs a model."""
    thirds = ["lower third", "middle third", "upper third"]
    labels = {"similarity": thirds, "labelled": ["no", "no", "yes"], "cut": ["yes", "yes", None]}
    table = pl.DataFrame({"qid": ["q0", "q1", "q2"], **labels})
    return dict.fromkeys(("dev", "test"), (table, About(thirds=(0.5, 0.75), passage_length=48, left_out=())))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose systems have been measured, and what was told. Read only: `folder` is a copy of it."""
    root = tmp_path_factory.mktemp("measured")
    declare(root)
    with chdir(root):
        write_tables("train", "dev", "test")
        write_runs(RANKINGS)
        project.POSITIVES.parent.mkdir(parents=True)
        shutil.copy(project.qrels("dev"), project.POSITIVES)
    (root / "told.txt").write_text(evaluate(root))
    return root


@pytest.fixture
def folder(measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(measured, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(folder: Path, name: str, branch: str = "gnn_encoder") -> Any:
    text = (folder / project.METRICS / branch / f"{name}.json").read_text()
    assert "NaN" not in text
    return json.loads(text)


def test_metrics(measured: Path) -> None:
    metrics, significance = read(measured, "test"), read(measured, "significance")
    reciprocal_ranks = dict.fromkeys(BRANCH, (1 + 1 / 2 + 1 / 3) / 3) | {
        "bm25": (1 / 2 + 0 + 1 / 3) / 3,
        "untouched": (1 / 2 + 1 / 2 + 1 / 3) / 3,
        "query_mean": (1 + 1 / 2 + 1 / 2) / 3,
        "gnn_encoder": (1 + 1 + 1 / 2) / 3,
    }
    assert tuple(metrics) == BRANCH
    assert {name: values["RR@10"] for name, values in metrics.items()} == pytest.approx(reciprocal_ranks, abs=1e-12)
    same = {"baseline": "dual_encoder", "difference": 0.0, "low": 0.0, "high": 0.0, "p": 1.0, "p_holm": 1.0}
    assert significance["dev"]["no_gnn"] == same | {"queries": 3}
    assert significance["test"]["gnn_encoder"]["difference"] == pytest.approx(2 / 9, abs=1e-12)
    assert "dual_encoder" not in significance["test"]
    assert "| GNN-encoder" in (measured / "told.txt").read_text()
    values = pl.read_parquet(measured / project.measured("gnn_encoder") / "values.parquet")
    assert values.columns == ["system", "split", "qid", "measure", "value"]
    found = values.filter(system="gnn_encoder", split="dev", measure="RR@10").select("qid", "value").rows()
    assert found == [("q0", 1.0), ("q1", 1.0), ("q2", 0.5)]
    plots = [path.name for path in (measured / project.PLOTS / "gnn_encoder").iterdir()]
    assert sorted(plots) == ["measures.csv", "recall.csv", "recall.png", "systems.png"]


def test_a_branch_is_compared_with_a_system_of_another(folder: Path) -> None:
    branches = registry().branches
    of_m_de = branches["pair"].model_copy(update={"baseline": "dual_encoder"})
    evaluate(folder, "pair", registry().model_copy(update={"branches": branches | {"pair": of_m_de}}))
    found, sliced = read(folder, "significance", "pair")["test"], read(folder, "slices", "pair")["dev"]
    assert list(found) == ["pair_no_psr", "pair"]
    assert found["pair"]["baseline"] == sliced["baseline"] == "dual_encoder"
    assert found["pair"]["difference"] == pytest.approx((0 + 1 / 2 + 2 / 3) / 3, abs=1e-12)
    assert list(sliced["slices"]["labelled"]["no"]["against"]) == ["pair_no_psr", "pair"]


def test_slices_and_the_claim(measured: Path) -> None:
    found, claim, told = read(measured, "slices")["test"], read(measured, "claim"), (measured / "told.txt").read_text()
    assert (found["measure"], found["baseline"], found["about"]["thirds"]) == ("RR@10", "dual_encoder", [0.5, 0.75])
    no = found["slices"]["labelled"]["no"]
    assert (no["queries"], no["means"]["dual_encoder"], tuple(no["means"])) == (2, 0.75, BRANCH)
    assert no["against"]["gnn_encoder"]["difference"] == 0.25 and "dual_encoder" not in no["against"]
    assert found["slices"]["cut"]["yes"]["queries"] == 2, "q2 has no label"
    assert (claim["system"], claim["best"], claim["better"]) == ("gnn_encoder", "query_mean", {})
    assert claim["against"]["query_mean"]["test"]["difference"] == pytest.approx(1 / 6, abs=1e-12)
    assert "| nearest training query: middle third (0.500 to 0.750) " in told
    assert "GNN-encoder in RR@10 against control + mean of labelled queries, " in told.splitlines()[-1]


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
