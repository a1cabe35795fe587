"""A project of three queries a split whose passages try to break out of the page."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from gnn_encoder.base.files import write_json
from gnn_encoder.base.runs import write_run
from gnn_encoder.base.tables import PASSAGES, QRELS, QUERIES, write_table
from gnn_encoder.pipeline import project

from ..project import declare

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
    "retriever": [[3, 0, 1], [0, 3, 1], [2, 0, 1]],
}
RECIPROCAL_RANKS = {
    "dual_encoder": [1.0, 1 / 2, 1 / 3],
    "gnn_encoder": [1.0, 1.0, 0.0],
    "retriever": [1 / 2, 1 / 3, 1.0],
}


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a project in which nothing has run."""
    declare(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def measure(empty: Path) -> Callable[..., None]:
    """Writes the runs and the queries' values of systems, as `retrieve` and `measure` do."""

    def write(*systems: str) -> None:
        for system in systems:
            for split in ("dev", "test"):
                scores = np.array([[3.0, 2.0, 1.0]] * 3)
                rows = np.array(RANKINGS[system])
                run = project.run_file(system, split)
                write_run(run, ["q0", "q1", "q2"], pa.chunked_array([PIDS]), rows, scores, system)
            values = [
                (system, split, f"q{place}", "RR@10", value)
                for split in ("dev", "test")
                for place, value in enumerate(RECIPROCAL_RANKS[system])
            ]
            path = project.measured(system) / "values.parquet"
            path.parent.mkdir(parents=True)
            pl.DataFrame(values, schema=["system", "split", "qid", "measure", "value"], orient="row").write_parquet(
                path
            )

    return write


def as_measured(*systems: str) -> None:
    """Let systems have values like M_de's."""
    for system in systems:
        if not project.measured(system).exists():
            shutil.copytree(project.measured("dual_encoder"), project.measured(system))


@pytest.fixture
def prepared(empty: Path) -> Path:
    """The working folder with passages, queries and judgements."""
    passages = pa.table([PIDS, ["", "<i>title</i>", "", ""], TEXTS], schema=PASSAGES)
    write_table(project.PASSAGES, PASSAGES, [passages])
    for split in ("dev", "test"):
        asked = ["first?", "<script>alert('second')</script>", "third?"]
        queries = pa.table([["q0", "q1", "q2"], asked, [[], [], []]], schema=QUERIES)
        write_table(project.queries(split), QUERIES, [queries])
        write_table(project.qrels(split), QRELS, [pa.table([["q0", "q1", "q2"], PIDS[:3], [1, 1, 1]], schema=QRELS)])
    statistics = {"passages": {"passages": 4}}
    statistics["test"] = {"queries": 3, "judgements": 3}
    write_json(project.PREPARED / "statistics.json", statistics)
    return empty


def comparison(difference: float, p: float, baseline: str = "dual_encoder") -> dict[str, object]:
    """A comparison as `compare` writes it."""
    low, high = difference - 0.01, difference + 0.01
    return {
        "baseline": baseline,
        "difference": difference,
        "low": low,
        "high": high,
        "p": p / 2,
        "p_holm": p,
        "queries": 3,
    }


@pytest.fixture
def one_branch(prepared: Path, measure: Callable[..., None]) -> Path:
    """The working folder after the GNN-encoder branch alone."""
    measure(*RANKINGS)
    for split in ("dev", "test"):
        means = {system: {"RR@10": sum(values) / 3} for system, values in RECIPROCAL_RANKS.items()}
        write_json(project.METRICS / "gnn_encoder" / f"{split}.json", means)
    tested = {"gnn_encoder": comparison(0.0556, 0.04), "retriever": comparison(0.0, 1.0)}
    write_json(project.METRICS / "gnn_encoder" / "significance.json", {"dev": tested, "test": tested})
    return prepared


@pytest.fixture
def axes() -> Any:
    """Axes to paint on."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure()
    FigureCanvasAgg(figure)
    return figure.subplots()
