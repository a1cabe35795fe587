"""What `gnn-encoder export` writes, read by the tools that it is written for."""

import os
from pathlib import Path

import faiss
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from gnn_encoder import cli
from gnn_encoder.base.files import seal
from gnn_encoder.base.tables import PASSAGES, write_table
from gnn_encoder.exporting import vectors as module
from gnn_encoder.exporting.query_encoder import FILES
from gnn_encoder.pipeline import project

from ..small import make

N, VIEWS = 11, 2
TEXTS = {f"p{i}": f"text {i} é" for i in range(N)}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two built systems, one of which has two vectors a passage, as the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "ROWS", 4)  # several parts
    for system, views in (("gnn_encoder", 1), ("dual_cross", VIEWS)):
        make(tmp_path, TEXTS, views=views, system=system)
    return tmp_path


def matrix(system: str) -> np.ndarray:
    found: np.ndarray = np.load(project.embeddings(system) / "embeddings.npy")
    return found


def export(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli.app, ["export", *arguments])
    return result.exit_code, result.output


@pytest.mark.parametrize(("system", "views"), [("gnn_encoder", 1), ("dual_cross", VIEWS)])
def test_npy(root: Path, system: str, views: int) -> None:
    code, out = export("--to", "npy", "--system", system, "out")
    assert code == 0 and out.split() == ["out/ids.txt", "out/vectors.npy"]
    found = np.load("out/vectors.npy")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, matrix(system))
    assert Path("out/ids.txt").read_text().split() == [f"p{i}" for i in range(N) for _ in range(views)]


@pytest.mark.parametrize(("system", "views"), [("gnn_encoder", 1), ("dual_cross", VIEWS)])
def test_parquet(root: Path, system: str, views: int) -> None:
    export("--to", "parquet", "--system", system, "out")
    found = pl.read_parquet("out/vectors.parquet")
    assert found["pid"].to_list() == [f"p{i}" for i in range(N) for _ in range(views)]
    assert found["text"][-1] == f"text {N - 1} é"
    np.testing.assert_array_equal(np.stack(found["vector"].to_numpy()), matrix(system))


def test_faiss_finds_what_the_index_finds(root: Path) -> None:
    export("--to", "faiss", "out")
    index, ids = faiss.read_index("out/index.faiss"), Path("out/ids.txt").read_text().split()
    query = matrix("gnn_encoder")[[3]]
    _, rows = index.search(query, 3)
    assert [ids[row] for row in rows[0]] == [f"p{row}" for row in np.argsort(-(matrix("gnn_encoder") @ query[0]))[:3]]


@pytest.mark.parametrize("to", ["npy", "parquet"])
@pytest.mark.parametrize("ids", [["other", *(f"p{i}" for i in range(1, N))], [f"p{i}" for i in range(N + 1)]])
def test_vectors_of_other_passages_are_not_exported(root: Path, to: str, ids: list[str]) -> None:
    columns = [ids, [""] * len(ids), ["text"] * len(ids)]
    write_table(project.PASSAGES, PASSAGES, [pa.table(columns, schema=PASSAGES)])
    code, out = export("--to", to, "out")
    assert code == 2 and "made of other passages than now" in out and not Path("out").exists()


@pytest.mark.parametrize(
    ("to", "artifact", "file"),
    [
        ("faiss", project.index("gnn_encoder"), "index.faiss"),
        ("npy", project.embeddings("gnn_encoder"), "embeddings.npy"),
        ("parquet", project.PREPARED, "passages.parquet"),
        ("beir", project.PREPARED, "passages.parquet"),
        ("onnx", project.gnn("gnn_encoder"), "encoder/dual_encoder.json"),
        ("sentence-transformers", project.gnn("gnn_encoder"), "encoder/dual_encoder.json"),
    ],
)
def test_a_damaged_artifact_is_not_exported(root: Path, to: str, artifact: Path, file: str) -> None:
    (project.gnn("gnn_encoder") / "encoder").mkdir(parents=True)
    for name in FILES:
        (project.gnn("gnn_encoder") / "encoder" / name).write_text("of no meaning here")
    seal(artifact)
    content = bytearray((artifact / file).read_bytes())
    content[len(content) // 2] ^= 1
    (artifact / file).write_bytes(content)
    code, out = export("--to", to, "out")
    assert code == 2 and out.startswith(f"error: {artifact}: damaged: it does not hold what its stage wrote; make it")
    assert out.count("\n") == 1 and not Path("out").exists()


def test_what_delete_leaves_of_a_sealed_artifact_is_exported(root: Path) -> None:
    for folder in (project.PREPARED, project.embeddings("gnn_encoder"), project.index("gnn_encoder")):
        seal(folder)
    assert CliRunner().invoke(cli.app, ["delete", "p3"]).exit_code == 0
    for to in ("npy", "faiss"):
        code, out = export("--to", to, to)
        assert code == 0, out
        assert Path(to, "ids.txt").read_text().split() == [f"p{i}" for i in range(N) if i != 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--to", "csv", "out"), "error: --to is 'csv': must be one of sentence-transformers, onnx, npy, "),
        (("--to", "npy", "--system", "bm25", "out"), "error: --system is 'bm25': must be one of untouched, "),
        (
            ("--to", "npy", "systems.yaml/out"),
            "error: systems.yaml/out: Not a directory; name a folder that can be made",
        ),
        (("--to", "npy", "data"), "error: data: exists already; name a new folder, or remove it"),
        (("--to", "npy", "--system", "pair", "out"), "error: data/indexes/pair"),
        (
            ("--to", "sentence-transformers", "out"),
            "error: data/mgt/gnn_encoder/encoder/dual_encoder.json: not built yet",
        ),
    ],
)
def test_mistakes_leave_nothing(root: Path, arguments: tuple[str, ...], message: str) -> None:
    code, out = export(*arguments)
    assert code == 2 and message in out and out.count("\n") == 1
    assert sorted(os.listdir()) == ["data", "params.yaml", "systems.yaml"]
