"""Real servers over the built project."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from ..project import ROOT

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
QUERY = "Which milk is halloumi made with?"


@dataclass(frozen=True)
class Server:
    """A real server."""

    process: subprocess.Popen[str]
    url: str
    log: Path

    def get(self, path: str, **values: str | int) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", params=values, timeout=120)


@contextmanager
def serving(root: Path, log: Path) -> Iterator[Server]:
    """A server on a free port, which it tells when it listens."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "gnn_encoder.cli", "serve", "--port", "0"]
    with log.open("w") as file:
        process = subprocess.Popen(command, cwd=root, stdout=file, stderr=file, env=environment, text=True)
    end = time.monotonic() + 60
    try:
        while not (url := re.search(r"^http://\S+$", log.read_text(), re.MULTILINE)):
            assert process.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        server = Server(process, url[0], log)
        assert server.get("/healthz").status_code == 200, "it takes signals"
        yield server
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def server(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that no test changes or stops."""
    with serving(built, tmp_path_factory.mktemp("log") / "log.txt") as started:
        yield started
