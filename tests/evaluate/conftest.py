"""A project of three queries a split whose passages try to break out of the page."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gnn_encoder.base.files import write_json
from gnn_encoder.base.runs import write_ranking
from gnn_encoder.base.tables import PASSAGES, QRELS, QUERIES
from gnn_encoder.pipeline import project

from ..project import declare
from ..texts import write

PIDS = ["p0", "p1", "p2", "p3"]
TEXTS = [
    "see http://example.org & \"quotes\" 'too' <b>bold</b>",
    "</script><script>document.title = 'broken'</script><img src=x onerror=alert(1)>",
    "plain words",
    "{{ 7 * 7 }} {% raw %} ünïcode   end",
]
# Rows of passages by query: q0's answer is p0, q1's p1, q2's p2.
RANKINGS = {
    "dual_encoder": [[0, 1, 2], [0, 1, 2], [0, 1, 2]],
    "gnn_encoder": [[0, 1, 2], [1, 0, 2], [3, 0, 1]],
    "untouched": [[3, 0, 1], [0, 3, 1], [2, 0, 1]],
}
RECIPROCAL_RANKS = {
    "dual_encoder": [1.0, 1 / 2, 1 / 3],
    "gnn_encoder": [1.0, 1.0, 0.0],
    "untouched": [1 / 2, 1 / 3, 1.0],
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


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a project in which nothing has run."""
    declare(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_queries(split: str, answers: list[list[str]], texts: list[str] = ["what?"] * 3) -> None:
    write(project.queries(split), QUERIES, [f"q{i}" for i in range(len(answers))], texts[: len(answers)], answers)


def write_tables(*splits: str) -> None:
    """Passages, and queries with judgements, in the current folder."""
    write(project.PASSAGES, PASSAGES, PIDS, ["", "<i>title</i>", "", ""], TEXTS)
    for split in splits:
        write_queries(split, [[], [], []], ["first?", "<script>alert('second')</script>", "third?"])
        write(project.qrels(split), QRELS, ["q0", "q1", "q2"], PIDS[:3], [1, 1, 1])


def write_runs(rankings: dict[str, list[list[int]]]) -> None:
    for system, rows in rankings.items():
        for split in ("dev", "test"):
            run, scores = project.run_file(system, split), np.array([[3.0, 2.0, 1.0]] * 3)
            write_ranking(run, (np.array(rows), scores), project.queries(split), project.PASSAGES, system)


@pytest.fixture
def one_branch(empty: Path) -> Path:
    """The working folder after the GNN-encoder branch alone."""
    write_tables("dev", "test")
    write_runs(RANKINGS)
    for system in RANKINGS:
        project.measured(system).mkdir(parents=True)
        values_of({system: RECIPROCAL_RANKS[system]}).write_parquet(project.measured(system) / "values.parquet")
    means = {system: {"RR@10": sum(values) / 3} for system, values in RECIPROCAL_RANKS.items()}
    gain = {"baseline": "dual_encoder", "difference": 0.0556, "low": 0.0456, "high": 0.0656, "p": 0.02, "queries": 3}
    tested = {"gnn_encoder": gain | {"p_holm": 0.04}}
    found = {"dev": means, "test": means, "significance": {"dev": tested, "test": tested}}
    for name, value in found.items():
        write_json(project.METRICS / "gnn_encoder" / f"{name}.json", value)
    return empty
