"""Real servers: how they stop, and how they take over what is built beside them."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pyarrow.parquet as pq
import pytest

from gnn_encoder.add import add
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.matrix import MATRIX
from gnn_encoder.pipeline import project
from gnn_encoder.search.faiss_index import build
from gnn_encoder.serve.app import serve

from ..project import ROOT
from .conftest import QUERY, Server, until

NEW = {"_id": "new-1", "title": "", "text": "Halloumi is a cheese that is made with the milk of goats and sheep."}


def test_sigterm_lets_requests_end_and_then_ends_the_server(own_server: Server) -> None:
    """The first explanation opens the graph, so that the answer takes a while; the signal comes in between."""
    answers: list[httpx.Response] = []
    request = threading.Thread(target=lambda: answers.append(own_server.get("/explain", pid="city-2")))
    request.start()
    time.sleep(0.3)
    own_server.process.send_signal(signal.SIGTERM)
    request.join()
    assert answers[0].status_code == 200
    assert own_server.process.wait(20) in (0, -signal.SIGTERM)
    assert "Traceback" not in own_server.log.read_text()


def rebuilt(scratch: Path) -> Path:
    """A new index of the system gnn_encoder, whose best passage for any query is `city-2`."""
    pids = pq.read_table(project.PASSAGES)["pid"].to_pylist()
    copy = scratch / "embeddings"
    shutil.copytree(project.embeddings("gnn_encoder"), copy)
    passages = np.load(copy / MATRIX)
    values = 0.001 * passages
    values[pids.index("city-2")] = 100 * passages.mean(axis=0)
    np.save(copy / MATRIX, values)
    build(copy, scratch / "index", factory="Flat", pids=project.PASSAGES, system="gnn_encoder", seed=1)
    return scratch / "index"


class Load:
    """Clients that search all the time, and note what they find and what fails."""

    def __init__(self, server: Server, clients: int = 4) -> None:
        self.first: set[str] = set()
        self.failures: list[str] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._search, args=(server,)) for _ in range(clients)]

    def _search(self, server: Server) -> None:
        with httpx.Client(base_url=server.url, timeout=30) as client:
            while not self._stop.is_set():
                response = client.get("/search", params={"query": QUERY, "k": 3})
                if response.status_code == 200:
                    self.first.add(response.json()["hits"][0]["pid"])
                else:
                    self.failures.append(response.text)

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def best(server: Server) -> str:
    pid: str = server.hits(query=QUERY, k=1)[0]["pid"]
    return pid


def test_a_new_index_is_taken_over_under_load_without_a_failed_request(
    root: Path, own_server: Server, tmp_path: Path
) -> None:
    """It is first missing, then half there, then of other passages; the old one answers all the while."""
    new, folder, before = rebuilt(tmp_path), project.index("gnn_encoder"), best(own_server)
    assert before != "city-2"
    with Load(own_server) as load:
        shutil.rmtree(folder)
        time.sleep(0.5)
        folder.mkdir()
        for name in ("manifest.json", "pids.parquet"):
            shutil.copy(new / name, folder / name)
        whole = (new / "index.faiss").read_bytes()
        (folder / "index.faiss").write_bytes(whole[: len(whole) // 2])
        time.sleep(0.5)
        table = pq.read_table(folder / "pids.parquet")
        pq.write_table(table.take([1, 0, *range(2, len(table))]), folder / ".pids")
        (folder / ".pids").replace(folder / "pids.parquet")
        (folder / ".index.faiss").write_bytes(whole)
        (folder / ".index.faiss").replace(folder / "index.faiss")
        until(lambda: "made of other passages than now" in own_server.log.read_text())
        assert best(own_server) == before
        shutil.copy(new / "pids.parquet", folder / ".pids")
        (folder / ".pids").replace(folder / "pids.parquet")
        until(lambda: best(own_server) == "city-2")
    assert load.failures == [] and load.first == {before, "city-2"}
    assert own_server.log.read_text().count("took over a new index") == 1


def test_what_was_added_is_found(root: Path, own_server: Server) -> None:
    (root / "new.jsonl").write_text(json.dumps(NEW) + "\n", encoding="utf-8")
    add("gnn_encoder", root / "new.jsonl")
    until(lambda: NEW["text"] in {hit["text"] for hit in own_server.hits(query=NEW["text"], k=100)})
    counts = {one["name"]: one["passages"] for one in own_server.get("/systems").json()["systems"]}
    assert counts == {"gnn_encoder": 121, "dual_encoder": 120}
    assert own_server.get("/explain", pid="city-2").json()["gate"] > 0
    added = own_server.get("/explain", pid="new-1")
    assert added.status_code == 409 and "was added after the build" in added.json()["detail"]


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-name.invalid"])
def test_an_address_of_another_machine(host: str) -> None:
    with pytest.raises(
        UserError, match=rf"^{re.escape(host)}:8000: .*[a-z]; stop what uses it, or give another --port"
    ):
        serve(host=host, port=8000, systems=[], hybrid=False, allowed_hosts=[])


def test_the_command_tells_what_is_wrong_in_one_line(built: Path, server: Server) -> None:
    for options, told in (
        (["--system", "pair", "--port", "0"], "error: data/indexes/pair/manifest.json: not built yet"),
        (["--port", server.url.rpartition(":")[2]], "Address already in use; stop what uses it"),
    ):
        command = [sys.executable, "-m", "gnn_encoder.cli", "serve", *options]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(command, cwd=built, capture_output=True, text=True, env=environment, timeout=60)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1) and told in done.stderr


def test_hybrid(root: Path) -> None:
    from fastapi.testclient import TestClient

    from gnn_encoder.search.bm25 import BM25Index
    from gnn_encoder.serve.app import create_app

    from ..small import make_hybrid

    make_hybrid(1.0, 20)
    with TestClient(create_app(["gnn_encoder"], hybrid=True, hosts=["*"])) as client:
        found = client.get("/search", params={"query": QUERY, "k": 3}).json()["hits"]
        assert client.get("/systems").json()["systems"][0]["title"] == "GNN-encoder and BM25"
    rows, _ = BM25Index.open(project.index("bm25")).search([QUERY], 3)
    pids = pq.read_table(project.PASSAGES)["pid"].to_pylist()
    assert [hit["pid"] for hit in found] == [pids[row] for row in rows[0]]
