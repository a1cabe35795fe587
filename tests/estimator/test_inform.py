"""`gnn-encoder inform`: vectors and judgements from files, a table, new vectors in a file."""

from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import polars as pl
import pytest

from gnn_encoder import GNNEncoder
from gnn_encoder import inform as informing
from gnn_encoder.base.matrix import Matrix

from ..project import printed, refusal
from .data import DATA, M

ROWS = ("as they came", "NUDGE-N", "closed form", "GNN-encoder", "the best of these + query bank")
VECTORS = {"passages": DATA.passages, "queries": DATA.queries, "dev-queries": DATA.dev}
LABELS = {"qrels": DATA.labels, "dev-qrels": DATA.dev_labels}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The arguments, with `.npy` and two columns of row numbers for labels; a training has few steps."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(informing, "GNNEncoder", partial(GNNEncoder, steps=20))
    for name, vectors in VECTORS.items():
        np.save(f"{name}.npy", vectors)
    for name, labels in LABELS.items():
        np.savetxt(f"{name}.tsv", labels, fmt="%d", delimiter="\t")
    return {name: f"{name}.npy" for name in VECTORS} | {name: f"{name}.tsv" for name in LABELS} | {"out": "o/new.npy"}


def arguments(given: dict[str, str]) -> list[str]:
    return ["inform", *(part for name in given for part in (f"--{name}", given[name]))]


def inform(given: dict[str, str]) -> str:
    return "\n".join(printed(*arguments(given)))


def table(told: str) -> dict[str, float]:
    return {name: float(line[30:43]) for line in told.splitlines() for name in ROWS if line.startswith(name + " ")}


def test_row_numbers_and_ids_give_the_same(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnn_encoder.vectors.ROWS_AT_A_TIME", 7)
    told = inform(files)
    found, informed = table(told), np.load(files["out"])
    assert list(found) == list(ROWS)
    assert found["GNN-encoder"] > found["as they came"] + 5 and found["NUDGE-N"] >= found["as they came"]
    assert found["as they came"] == pytest.approx(100 * reciprocal_rank(DATA.passages), abs=0.06)
    assert max(found.values()) == pytest.approx(100 * reciprocal_rank(informed), abs=0.06)
    for name, vectors in VECTORS.items():
        ids = [f"{name[0]}{row}" for row in range(len(vectors))]
        files[name] = f"{name}.parquet"
        pl.DataFrame({"id": ids, "vector": vectors.tolist()}).write_parquet(files[name])
    for name, labels in LABELS.items():
        lines = [f"{name[0]}{query} 0 p{passage} 1\n" for query, passage in labels.tolist()]
        Path(files[name]).write_text("".join(lines) + f"{name[0]}0 0 p79 0\n")
    told = inform(files | {"out": "new.parquet"})
    assert table(told) == found
    written = pl.read_parquet("new.parquet")
    assert written["id"].to_list() == [f"p{row}" for row in range(M)]
    np.testing.assert_allclose(np.array(written["vector"].to_list()), informed, atol=1e-6)
    assert not list(Path().rglob(".*")), "nothing half-written stays"


def test_ids_that_are_numbers_stay_so_and_other_columns_are_not_read(files: dict[str, str]) -> None:
    vectors, ids = DATA.passages.tolist(), list(range(M))
    pl.DataFrame({"text": ["a"] * M, "vector": vectors, "id": ids}).write_parquet("passages.parquet")
    inform(files | {"passages": "passages.parquet", "out": "new.parquet"})
    assert pl.read_parquet("new.parquet")["id"].to_list() == ids


def test_a_full_disk_is_told_before_the_work(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informing, "labels_alone", lambda *args, **more: pytest.fail("has begun to work"))
    monkeypatch.setattr("shutil.disk_usage", lambda path: Mock(free=1_000))
    assert "no space left on the disk: " in refusal(*arguments(files))


def test_the_best_on_dev_is_written(files: dict[str, str]) -> None:
    """With few labels the passages as they came, or moved by their labels, can be better than what was trained."""
    np.savetxt(files["qrels"], DATA.labels[:20], fmt="%d", delimiter="\t")
    told = inform(files | {"out": "new.parquet"})
    found, written = table(told), pl.read_parquet("new.parquet")
    best = max(ROWS, key=lambda name: found[name])
    assert told.splitlines()[-2] == f"new.parquet: {best}, the best on dev"
    assert reciprocal_rank(np.array(written["vector"].to_list())) == pytest.approx(found[best] / 100, abs=6e-4)
    assert written["id"].to_list() == list(range(M))


def test_what_may_not_be_meant_is_told(files: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    """A vector of another length, without which NUDGE-N is left out, and dev queries that are training queries."""
    vectors = DATA.passages.copy()
    vectors[7] *= 3
    np.save(files["passages"], vectors)
    told = inform(files | {"dev-queries": files["queries"], "dev-qrels": files["qrels"]})
    assert "passages.npy: row 7 has length 3, not 1: scores are inner products" in told
    assert "similarity dot" in told and list(table(told)) == [name for name in ROWS if name != "NUDGE-N"]
    assert f"{len(DATA.queries)} of {len(DATA.queries)} dev queries have the vector of a training query" in caplog.text


def test_all_is_checked_before_any_work(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informing, "labels_alone", lambda *args, **more: pytest.fail("has begun to work"))
    few = "".join(f"{query}\t{query % 7}\n" for query in range(19))
    header = "\x93NUMPY\x01\x00\x10\x00{'descr': (((((((\n"
    texts = {"unknown.tsv": "0\t80\n", "ids.tsv": "0\tp1\n", "none.tsv": "0 0 1 0\n", "few.tsv": few, "odd.npy": header}
    for name, text in texts.items():
        Path(name).write_text(text)
    np.save("narrow.npy", np.full((3, 5), 5**-0.5, dtype=np.float32))
    np.savez("p.npz", DATA.passages)
    Path("folder.npy").mkdir()
    columns = {"floats": [float(row) for row in range(M)], "lists": [[0]] * M, "null": [*range(3), None, *range(4, M)]}
    for name, column in columns.items():
        pl.DataFrame({"id": column, "vector": DATA.passages.tolist()}).write_parquet(f"{name}.parquet")
    for name, value, message in (
        ("qrels", "unknown.tsv", "unknown.tsv, line 1: passage '80' is not in"),
        ("qrels", "ids.tsv", "passage 'p1' is not in"),
        ("dev-qrels", "none.tsv", "no pair"),
        ("queries", "odd.npy", "odd.npy: must be .npy (not .npz), or .parquet with columns `id` and"),
        ("out", "new.txt", "must end in .npy or .parquet"),
        ("out", "folder.npy", "folder.npy: is a folder; name a file"),
        ("out", "qrels.tsv/below/new.npy", "qrels.tsv is a file; name a place in a folder"),
        ("unlabelled", "narrow.npy", "narrow.npy: 5 columns, the passages have 8"),
        ("qrels", "few.tsv", "few.tsv: labels 19 queries; must be at least 20 (1 / beta, 0.05): label more"),
        ("passages", "floats.parquet", "column `id` has type Float64; must be text or whole numbers"),
        ("passages", "lists.parquet", "column `id` has type List(Int64); must be text or whole numbers"),
        ("passages", "null.parquet", "(column `id` has no value in row 3)"),
        ("passages", "p.npz", "p.npz: must be .npy (not .npz), or .parquet"),
        ("out", files["passages"], "passages.npy: is read too; give another file"),
    ):
        assert message in refusal(*arguments(files | {name: value}))


def reciprocal_rank(passages: Matrix) -> float:
    scores = DATA.dev @ passages.T
    rank = (scores > np.take_along_axis(scores, DATA.dev_labels[:, 1:], axis=1)).sum(axis=1) + 1
    return float(np.where(rank <= 10, 1 / rank, 0).mean())
