"""A project of three queries a split, evaluated, whose passages try to break out of the page."""

import io
import logging
import shutil
from contextlib import chdir, redirect_stderr
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import polars as pl
import pytest

from gnn_encoder.base.runs import write_ranking
from gnn_encoder.base.tables import PASSAGES, QRELS, QUERIES
from gnn_encoder.evaluate.slices import About, Properties
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.project import registry
from gnn_encoder.pipeline.stage import find_stage

from ..project import call_stage, declare
from ..texts import write

PIDS = ["p0", "p1", "p2", "p3"]
TEXTS = [
    "see http://example.org & \"quotes\" 'too' <b>bold</b>",
    "</script><script>document.title = 'broken'</script><img src=x onerror=alert(1)>",
    "plain words",
    "{{ 7 * 7 }} {% raw %} ünïcode   end",
]
BRANCH = tuple(registry().branches["gnn_encoder"].systems)
# Rows of passages by query: q0's answer is p0, q1's p1, q2's p2.
RANKINGS = dict.fromkeys(BRANCH, [[0, 1, 2]] * 3) | {
    "bm25": [[1, 0, -1], [-1, -1, -1], [0, 1, 2]],
    "untouched": [[1, 0, 2], [0, 1, 2], [0, 1, 2]],
    "nudge_n": [[0, 1, 2], [1, 0, 2], [0, 1, 2]],
    "gnn_encoder": [[0, 1, 2], [1, 0, 2], [3, 0, 1]],
    "pair_no_psr": [[0, 1, 2], [0, 1, 2], [0, 1, 2]],
    "pair": [[0, 1, 2], [1, 0, 2], [2, 0, 1]],
}
INFORMED: dict[str, Any] = {  # in the place of what needs a graph
    "attention": {"labelled": {"mean": 0.25, "low": 0.2, "high": 0.3, "passages": 7}},
    "counts": {"queries": 9, "won": 1, "lost": 0},
    "cases": [{"query": "<b>?", "passage": "text", "rank_of_dual_encoder": None, "informed_by": []}],
}


def values_of(systems: dict[str, list[float]]) -> pl.DataFrame:
    """Values of RR@10 of q0, q1, ..., the same on both splits."""
    rows = [
        (system, split, f"q{place}", "RR@10", value)
        for split in ("dev", "test")
        for system, of in systems.items()
        for place, value in enumerate(of)
    ]
    return pl.DataFrame(rows, schema=["system", "split", "qid", "measure", "value"], orient="row")


def write_queries(split: str, answers: list[list[str]], texts: list[str] = ["what?"] * 3) -> None:
    write(project.queries(split), QUERIES, [f"q{i}" for i in range(len(answers))], texts[: len(answers)], answers)


def query_properties(params: Params, retrieved: Any) -> dict[str, Properties]:
    """In the place of what needs a model."""
    thirds = ["lower third", "middle third", "upper third"]
    labels = {"similarity": thirds, "labelled": ["no", "no", "yes"], "cut": ["yes", "yes", None]}
    table = pl.DataFrame({"qid": ["q0", "q1", "q2"], **labels})
    return dict.fromkeys(("dev", "test"), (table, About(thirds=(0.5, 0.75), passage_length=48, left_out=())))


def asked_again(systems: list[str], name: str, params: Params) -> dict[str, float]:
    """In the place of what needs indexes."""
    return {system: 0.25 if system == "gnn_encoder" else 0.5 for system in systems}


def evaluate(folder: Path, branch: str = "gnn_encoder") -> str:
    """Run the stage in this process; returns what it tells."""
    for path in find_stage("evaluate", [branch], folder).inputs:  # what needs a model or a graph is replaced
        if not (folder / path).suffix:
            (folder / path).mkdir(parents=True, exist_ok=True)
    told, level = io.StringIO(), logging.root.level
    with pytest.MonkeyPatch.context() as patch, chdir(folder), redirect_stderr(told):
        patch.setattr(logging.root, "handlers", [])  # so that the stage makes its own, which writes to stderr
        patch.setattr("gnn_encoder.evaluate.slices.query_properties", query_properties)
        patch.setattr("gnn_encoder.evaluate.slices.asked_again", asked_again)
        call_stage("evaluate", branch, open_graph=lambda: Mock(), informed=lambda params: INFORMED)
    logging.root.setLevel(level)
    return told.getvalue()


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose systems have been measured, and what was told. Read only: `folder` is a copy of it."""
    root = tmp_path_factory.mktemp("measured")
    declare(root)
    with chdir(root):
        write(project.PASSAGES, PASSAGES, PIDS, ["", "<i>title</i>", "", ""], TEXTS)
        for split in ("train", "dev", "test"):
            write_queries(split, [[], [], []], ["first?", "<script>alert('second')</script>", "third?"])
            write(project.qrels(split), QRELS, ["q0", "q1", "q2"], PIDS[:3], [1, 1, 1])
        for system, rows in RANKINGS.items():
            for split in project.JUDGED:
                run, ranking = project.run_file(system, split), (np.array(rows), np.array([[3.0, 2.0, 1.0]] * 3))
                write_ranking(run, ranking, project.queries(split), project.PASSAGES, system)
        project.POSITIVES.parent.mkdir(parents=True)
        shutil.copy(project.qrels("dev"), project.POSITIVES)
    (root / "told.txt").write_text(evaluate(root))
    return root


@pytest.fixture
def folder(measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a copy of what was measured."""
    shutil.copytree(measured, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path
