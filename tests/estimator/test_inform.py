"""`gnn-encoder inform`: vectors and judgements from files, a table, new vectors in a file."""

import json
import sys
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from gnn_encoder import GNNEncoder
from gnn_encoder import inform as informing
from gnn_encoder.base.matrix import Matrix
from gnn_encoder.cli import app

from ..project import ROOT
from .data import DATA, D, M

ROWS = ("as they came", "mean of labelled queries", "NUDGE-N", "closed form", "GNN-encoder")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """The arguments, with `.npy` and two columns of row numbers for labels."""
    named = {"passages": DATA.passages, "queries": DATA.queries, "dev-queries": DATA.dev}
    for name, vectors in named.items():
        np.save(tmp_path / f"{name}.npy", vectors)
    for name, labels in (("qrels", DATA.labels), ("dev-qrels", DATA.dev_labels)):
        np.savetxt(tmp_path / f"{name}.tsv", labels, fmt="%d", delimiter="\t")
    given = {name: f"{name}.npy" for name in named} | {"qrels": "qrels.tsv", "dev-qrels": "dev-qrels.tsv"}
    return {name: str(tmp_path / file) for name, file in given.items()} | {"out": str(tmp_path / "out" / "new.npy")}


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train for few steps."""
    monkeypatch.setattr(informing, "GNNEncoder", partial(GNNEncoder, steps=20))


def inform(given: dict[str, str]) -> tuple[int, str]:
    """Exit status, and what is printed."""
    result = CliRunner().invoke(app, ["inform", *(part for name in given for part in (f"--{name}", given[name]))])
    return result.exit_code, result.output if result.exit_code else result.stdout


def table(told: str) -> dict[str, float]:
    return {name: float(line[28:41]) for line in told.splitlines() for name in ROWS if line.startswith(name + " ")}


def test_row_numbers_and_ids_give_the_same(
    files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gnn_encoder.vectors.ROWS_AT_A_TIME", 7)
    status, told = inform(files)
    assert status == 0, told
    found, informed = table(told), np.load(files["out"])
    assert list(found) == list(ROWS)
    assert found["GNN-encoder"] > found["as they came"] + 5 and found["NUDGE-N"] >= found["as they came"]
    assert found["as they came"] == pytest.approx(100 * reciprocal_rank(DATA.passages), abs=0.06)
    assert max(found.values()) == pytest.approx(100 * reciprocal_rank(informed), abs=0.06)

    named = {"passages": (DATA.passages, "p"), "queries": (DATA.queries, "q"), "dev-queries": (DATA.dev, "d")}
    for name, (vectors, letter) in named.items():
        ids = [f"{letter}{row}" for row in range(len(vectors))]
        files[name] = str(tmp_path / f"{name}.parquet")
        pl.DataFrame({"id": ids, "vector": vectors.tolist()}).write_parquet(files[name])
    for name, letter, labels in (("qrels", "q", DATA.labels), ("dev-qrels", "d", DATA.dev_labels)):
        lines = [f"{letter}{query} 0 p{passage} 1\n" for query, passage in labels.tolist()]
        Path(files[name]).write_text("".join(lines) + f"{letter}0 0 p79 0\n")
    files["out"] = str(tmp_path / "new.parquet")
    status, told = inform(files)
    assert status == 0 and table(told) == found
    written = pl.read_parquet(files["out"])
    assert written["id"].to_list() == [f"p{row}" for row in range(M)]
    np.testing.assert_allclose(np.array(written["vector"].to_list()), informed, atol=1e-6)
    assert not list(tmp_path.rglob(".*")), "nothing half-written stays"


def test_the_best_on_dev_is_written(files: dict[str, str]) -> None:
    """With few labels the passages as they came, or moved by their labels, can be better than what was trained."""
    np.savetxt(files["qrels"], DATA.labels[:20], fmt="%d", delimiter="\t")
    status, told = inform(files)
    found = table(told)
    best = max(ROWS, key=lambda name: found[name])
    assert status == 0 and told.splitlines()[-2].partition(": ")[2] == f"{best}, the best on dev"
    assert reciprocal_rank(np.load(files["out"])) == pytest.approx(found[best] / 100, abs=6e-4)


def test_what_may_not_be_meant_is_told(files: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    """A vector of another length, without which NUDGE-N is left out, and dev queries that are training queries."""
    vectors = DATA.passages.copy()
    vectors[7] *= 3
    np.save(files["passages"], vectors)
    status, told = inform(files | {"dev-queries": files["queries"], "dev-qrels": files["qrels"]})
    assert status == 0 and "passages.npy: row 7 has length 3, not 1: scores are inner products" in told
    assert "similarity dot" in told and list(table(told)) == [name for name in ROWS if name != "NUDGE-N"]
    assert f"{len(DATA.queries)} of {len(DATA.queries)} dev queries have the vector of a training query" in caplog.text


def test_all_is_checked_before_any_work(files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informing, "labels_alone", lambda *args, **more: pytest.fail("has begun to work"))
    taken, unit = Path(files["qrels"]), np.full((3, D), D**-0.5, dtype=np.float32)
    np.save(tmp_path / "narrow.npy", unit[:, :5])
    np.savez(tmp_path / "p.npz", DATA.passages)
    (tmp_path / "few.tsv").write_text("".join(f"{query}\t{query % 7}\n" for query in range(19)))
    (tmp_path / "folder.npy").mkdir()
    ids = {"floats": [float(row) for row in range(M)], "lists": [[0]] * M}
    for name, column in ids.items():
        pl.DataFrame({"id": column, "vector": DATA.passages.tolist()}).write_parquet(tmp_path / f"{name}.parquet")
    texts = {"unknown": "0\t80\n", "ids": "0\tp1\n", "none": "0 0 1 0\n"}
    for name, text in texts.items():
        (tmp_path / f"{name}.tsv").write_text(text)
    (tmp_path / "header.npy").write_text("\x93NUMPY\x01\x00\x10\x00{'descr': (((((((\n")
    for name, value, message in (
        ("qrels", tmp_path / "unknown.tsv", "passage '80' is not in"),
        ("qrels", tmp_path / "ids.tsv", "passage 'p1' is not in"),
        ("dev-qrels", tmp_path / "none.tsv", "no pair"),
        ("queries", tmp_path / "header.npy", "header.npy: must be .npy (not .npz), or .parquet with columns `id` and"),
        ("out", tmp_path / "new.txt", "must end in .npy or .parquet"),
        ("out", tmp_path / "folder.npy", "folder.npy: is a folder; name a file"),
        ("out", taken / "below" / "new.npy", "qrels.tsv is a file; name a place in a folder"),
        ("unlabelled", tmp_path / "narrow.npy", "narrow.npy: 5 columns, the passages have 8"),
        ("qrels", tmp_path / "few.tsv", "few.tsv: labels 19 queries; must be at least 20 (1 / beta, 0.05): label more"),
        ("passages", tmp_path / "floats.parquet", "column `id` has type Float64; must be text or whole numbers"),
        ("passages", tmp_path / "lists.parquet", "column `id` has type List(Int64); must be text or whole numbers"),
        ("passages", tmp_path / "p.npz", "p.npz: must be .npy (not .npz), or .parquet"),
        ("out", files["passages"], "passages.npy: is read too; give another file"),
    ):
        status, told = inform(files | {name: str(value)})
        assert status == 2 and message in " ".join(told.split()) and told.count("\n") == 1, told


def test_the_benchmark_runs(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(built)
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.setattr(sys, "argv", ["own_vectors", "--output", str(tmp_path / "record.json")])
    import own_vectors

    own_vectors.main()
    record = json.loads((tmp_path / "record.json").read_text())
    assert [*record["test"]] == [*record["dev"]] == list(ROWS) and len(record["test_of_seeds"]) == 3


def reciprocal_rank(passages: Matrix) -> float:
    scores = DATA.dev @ passages.T
    rank = (scores > np.take_along_axis(scores, DATA.dev_labels[:, 1:], axis=1)).sum(axis=1) + 1
    return float(np.where(rank <= 10, 1 / rank, 0).mean())
