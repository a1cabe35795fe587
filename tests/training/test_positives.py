"""What the stage bm25 makes of literal runs: the dev sample's candidates, judged by qrels and by answers."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import yaml

from gnn_encoder.core.records import PASSAGES, QRELS, QUERIES
from gnn_encoder.core.runs import read_run, write_run
from gnn_encoder.core.storage.tables import write_table
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params, load_params

from ..project import ROOT, declare

TEXTS = ["a hot oven", "a pan", "salt and a pan", "an oven", "yeast", "the oven and salt", "rye", "milk"]
RUNS = {"bm25": [[0, 1, 4], [6, 7, 2], [1, 5, 4]], "untouched": [[3, 1, 2], [6, 2, 4], [2, 6, 7]]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_params: Params) -> Path:
    monkeypatch.chdir(tmp_path)
    declare(tmp_path)
    values = tiny_params.model_dump(exclude_unset=True)
    values["dev"] |= {"queries": 9, "depth": 3}  # two of each system, rounded up
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(values))
    pids = [f"p{i}" for i in range(len(TEXTS))]
    write_table(project.PASSAGES, PASSAGES, [pa.table([pids, [""] * len(TEXTS), TEXTS], schema=PASSAGES)])
    for system, rows in RUNS.items():
        scores = np.tile(np.array([3.0, 2.0, 1.0]), (3, 1))
        write_run(project.run_file(system, "dev"), ["q0", "q1", "q2"], pa.array(pids), np.array(rows), scores, system)
    return tmp_path


def candidates(answers: list[list[str]], judged: list[tuple[str, str, int]]) -> list[tuple[int, int, bool]]:
    write_table(project.queries("dev"), QUERIES, [pa.table([["q0", "q1", "q2"], ["?"] * 3, answers], schema=QUERIES)])
    rows = pl.DataFrame(judged, schema={"qid": pl.String, "pid": pl.String, "grade": pl.Int32}, orient="row")
    write_table(project.qrels("dev"), QRELS, [rows.to_arrow()])
    write_dev = runpy.run_path(str(ROOT / "stages" / "bm25.py"))["write_dev"]
    write_dev(
        SimpleNamespace(params=load_params(), unfinished=lambda path: path), read_run(project.run_file("bm25", "dev"))
    )
    return pl.read_parquet(project.DEV_CANDIDATES).rows()


def test_by_qrels() -> None:
    found = candidates([[], [], []], [("q0", "p7", 1), ("q0", "p1", 2), ("q2", "p0", 1), ("q1", "p6", 0)])
    # q1 has no relevant passage, and so is not sampled.
    assert found == [
        *((0, 0, False), (0, 1, True), (0, 3, False), (0, 7, True)),
        *((2, 0, True), (2, 1, False), (2, 2, False), (2, 5, False), (2, 6, False)),
    ]


def test_by_answers() -> None:
    found = candidates([["oven"], ["gas"], ["salt"]], [])
    # BM25's best passage that holds an answer, and those of a query's own candidates that hold one.
    assert found == [
        *((0, 0, True), (0, 1, False), (0, 3, True)),
        *((2, 1, False), (2, 2, True), (2, 5, True), (2, 6, False)),
    ]
    assert pl.read_parquet(project.POSITIVES).rows() == [("q0", "p0", 1), ("q2", "p5", 1)]
