"""Copies of the built project, and real servers over it."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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

    def is_ready(self) -> bool:
        with suppress(httpx.TransportError):
            return self.get("/healthz").status_code == 200
        return False

    def hits(self, **values: str | int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("/search", **values).json()["hits"]
        return found


@contextmanager
def serving(root: Path, log: Path) -> Iterator[Server]:
    """A server on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "gnn_encoder.cli", "serve", "--port", str(port)]
    with log.open("w") as file:
        process = subprocess.Popen(command, cwd=root, stdout=file, stderr=file, env=environment, text=True)
    server, end = Server(process, f"http://127.0.0.1:{port}", log), time.monotonic() + 60
    try:
        while not server.is_ready():
            assert process.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        yield server
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def server(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that no test changes or stops."""
    with serving(built, tmp_path_factory.mktemp("log") / "log.txt") as started:
        yield started
