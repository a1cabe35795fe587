"""A tiny project with built systems, among them a GNN-encoder with random weights; apps over it, and real servers."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import torch

from gnn_encoder import Searcher
from gnn_encoder.graph.network import GNNConfig, QueryPassageGNN
from gnn_encoder.index.build import build
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.experiment import init
from gnn_encoder.pipeline.params import load_params

from ..project import ROOT, call_stage, declare

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
SYSTEMS = ("gnn_encoder", "dual_encoder", "query_mean")
QUERY = "Which milk is halloumi made with?"


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project; read only: copy it to change it."""
    folder = tmp_path_factory.mktemp("serving") / "project"
    (folder / "tests").mkdir(parents=True)
    shutil.copytree(ROOT / "tests" / "tiny", folder / "tests" / "tiny")
    declare(folder)
    with chdir(folder):
        init([str(folder / "tests" / "tiny" / "params.yaml"), "mgt.edge_features=product"])
        _build()
    return folder


def _build() -> None:
    call_stage("prepare")
    params = load_params()
    torch.manual_seed(0)
    encoder = DualEncoder.from_pretrained(params.encoder)
    encoder.save(project.encoder("dual_encoder"))
    shutil.copytree(project.encoder("dual_encoder"), project.encoder("retriever"))
    project.embeddings("retriever").mkdir(parents=True)
    call_stage("cache_passages", "dual_encoder")
    call_stage("build_graph", "gnn_encoder")
    encoder.save(project.encoder("gnn_encoder"))
    network().save(project.gnn("gnn_encoder"))
    project.edge_features("gnn_encoder").mkdir(parents=True)
    call_stage("encode_corpus", "gnn_encoder")
    shutil.copytree(project.embeddings("dual_encoder"), project.embeddings("query_mean"))
    for system in SYSTEMS:
        folders = project.embeddings(system), project.index(system)
        build(*folders, factory="Flat", pids=project.PASSAGES, system=system, seed=params.seed)
        Searcher.open(project.index(system))  # makes the encoder's graph, so that no server waits for it


def network() -> QueryPassageGNN:
    """A network whose heads, labels and gates all differ."""
    config = GNNConfig(
        dimension=32,
        edge_dimension=None,
        layers=2,
        heads=4,
        gate="learned",
        edge_features="product",
        graph="full",
        labelled=True,
        similarity="cosine",
    )
    torch.manual_seed(1)
    gnn = QueryPassageGNN(config)
    with torch.no_grad():
        for parameter in gnn.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return gnn


@pytest.fixture
def root(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the project, as the current folder."""
    copy = tmp_path / "project"
    shutil.copytree(built, copy)
    monkeypatch.chdir(copy)
    return copy


@dataclass(frozen=True)
class Server:
    """A real server."""

    process: subprocess.Popen[str]
    url: str
    log: Path

    def get(self, path: str, **values: str | int) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", params=values, timeout=120)

    def hits(self, **values: str | int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("/search", **values).json()["hits"]
        return found

    def explaining(self) -> list[int]:
        """The processes that explain."""
        children = psutil.Process(self.process.pid).children()
        return [one.pid for one in children if one.status() != psutil.STATUS_ZOMBIE]


def until(holds: Callable[[], Any], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


@contextmanager
def serving(root: Path, log: Path, *systems: str) -> Iterator[Server]:
    """A server on a free port, that looks for new indexes ten times a second."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = (
        "import sys; from gnn_encoder.serving import app, command; make = app.create_app\n"
        "app.create_app = lambda *given, **options: make(*given, poll=0.1, **options)\n"
        "command.serve(host='127.0.0.1', port=int(sys.argv[1]), systems=sys.argv[2:], hybrid=False, allowed_hosts=[])"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    with log.open("w") as file:
        command = [sys.executable, "-c", code, str(port), *systems]
        process = subprocess.Popen(command, cwd=root, stdout=file, stderr=file, env=environment, text=True)
        server = Server(process, f"http://127.0.0.1:{port}", log)

        def is_ready() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                return server.get("/healthz").status_code == 200
            except httpx.TransportError:
                return False

        try:
            until(is_ready)
            yield server
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def own_server(root: Path, tmp_path: Path) -> Iterator[Server]:
    """A server over the copy of the project."""
    with serving(root, tmp_path / "log.txt") as started:
        yield started


@pytest.fixture(scope="session")
def server(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that no test changes or stops."""
    with serving(built, tmp_path_factory.mktemp("log") / "log.txt") as started:
        yield started
