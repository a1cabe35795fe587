"""Copies of the built project, and real servers over it."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from ..project import ROOT

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
QUERY = "Which milk is halloumi made with?"


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


def until(holds: Callable[[], Any], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


@contextmanager
def serving(root: Path, log: Path) -> Iterator[Server]:
    """A server on a free port, that looks for new indexes ten times a second."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = (
        "import sys; from gnn_encoder import serve; serve.LOOK = 0.1\n"
        "serve.serve(host='127.0.0.1', port=int(sys.argv[1]), systems=[], hybrid=False, allowed_hosts=[])"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    with log.open("w") as file:
        command = [sys.executable, "-c", code, str(port)]
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


@pytest.fixture(scope="session")
def server(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that no test changes or stops."""
    with serving(built, tmp_path_factory.mktemp("log") / "log.txt") as started:
        yield started
