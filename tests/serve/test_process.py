"""Real servers: how they take over what is built beside them, and how they stop; and the errors of the command."""

import json
import re
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

from gnn_encoder import Searcher
from gnn_encoder.add import add_passages
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.matrix import MATRIX
from gnn_encoder.pipeline import project
from gnn_encoder.search.faiss_index import build
from gnn_encoder.serve import create_app, serve

from ..project import call
from ..small import make_hybrid
from .conftest import QUERY, Server, serving, until

NEW = {"_id": "new-1", "title": "", "text": "Halloumi is a cheese that is made with the milk of goats and sheep."}


def rebuilt(scratch: Path) -> Path:
    """A new index of the system gnn_encoder, whose best passage for any query is `city-2`."""
    pids = pq.read_table(project.PASSAGES)["pid"].to_pylist()
    shutil.copytree(project.embeddings("gnn_encoder"), scratch)
    passages = np.load(scratch / MATRIX)
    values = 0.001 * passages
    values[pids.index("city-2")] = 100 * passages.mean(axis=0)
    np.save(scratch / MATRIX, values)
    build(scratch, scratch / "index", factory="Flat", pids=project.PASSAGES, system="gnn_encoder", seed=1)
    return scratch / "index"


@contextmanager
def load(server: Server, clients: int = 4) -> Iterator[set[str]]:
    """Clients that search all the time, of whose requests none may fail; the passages that they find first."""
    first, stop = set[str](), threading.Event()

    def search() -> None:
        with httpx.Client(base_url=server.url, timeout=30) as client:
            while not stop.is_set():
                response = client.get("/search", params={"query": QUERY, "k": 3}).raise_for_status()
                first.add(response.json()["hits"][0]["pid"])

    with ThreadPoolExecutor(clients) as pool:
        searches = [pool.submit(search) for _ in range(clients)]
        try:
            yield first
        finally:
            stop.set()
    for one in searches:
        one.result()


def test_what_is_added_or_built_anew_is_taken_over_without_a_failed_request(root: Path, tmp_path: Path) -> None:
    """SIGTERM then lets a request end: an explanation, which opens the graph first, so that it takes a while."""
    with serving(root, tmp_path / "log.txt") as server:
        (root / "new.jsonl").write_text(json.dumps(NEW) + "\n", encoding="utf-8")
        add_passages("gnn_encoder", root / "new.jsonl")
        until(lambda: NEW["text"] in {hit["text"] for hit in server.hits(query=NEW["text"], k=100)})
        counts = {one["name"]: one["passages"] for one in server.get("/systems").json()["systems"]}
        assert counts == {"gnn_encoder": 121, "dual_encoder": 120}
        added = server.get("/explain", pid="new-1")
        assert added.status_code == 409 and "was added after the build" in added.json()["detail"]
        _build_anew(server, tmp_path)
        with ThreadPoolExecutor() as pool:
            answer = pool.submit(server.get, "/explain", pid="city-2")
            time.sleep(0.3)
            server.process.send_signal(signal.SIGTERM)
        assert answer.result().status_code == 200 and server.process.wait(20) in (0, -signal.SIGTERM)
        assert "Traceback" not in server.log.read_text()


def _build_anew(server: Server, scratch: Path) -> None:
    """An index that is first missing, then half there, then of other passages; the old one answers all the while."""
    new, folder, table = rebuilt(scratch / "matrix"), project.index("gnn_encoder"), scratch / "swapped.parquet"
    pids = pq.read_table(new / "pids.parquet")
    pq.write_table(pids.take([1, 0, *range(2, len(pids))]), table)

    def put(source: Path, name: str) -> None:
        shutil.copy(source, folder / f".{name}")
        (folder / f".{name}").replace(folder / name)

    with load(server) as first:
        until(lambda: first)
        (before,) = first
        assert before != "city-2"
        shutil.rmtree(folder)
        time.sleep(0.5)
        folder.mkdir()
        for name in ("manifest.json", "pids.parquet"):
            shutil.copy(new / name, folder / name)
        whole = (new / "index.faiss").read_bytes()
        (folder / "index.faiss").write_bytes(whole[: len(whole) // 2])
        time.sleep(0.5)
        put(table, "pids.parquet")
        put(new / "index.faiss", "index.faiss")
        until(lambda: "made of other passages than now" in server.log.read_text())
        assert first == {before}
        put(new / "pids.parquet", "pids.parquet")
        until(lambda: "city-2" in first)
    assert first == {before, "city-2"}


def test_the_command_tells_what_is_wrong_in_one_line(root: Path, server: Server) -> None:
    for options, told in (
        (["--system", "pair", "--port", "0"], "error: data/indexes/pair/manifest.json: not built yet"),
        (["--system", "bm25", "--port", "0"], "error: --system is 'bm25': must be all or one of untouched, "),
        (["--port", server.url.rpartition(":")[2]], "Address already in use; stop what uses it"),
    ):
        code, out, err = call("serve", *options)
        assert (code, out, err.count("\n")) == (2, "", 1) and told in err
    for host in ("192.0.2.1", "no-such-name.invalid"):
        told = rf"^{re.escape(host)}:8000: .*[a-z]; stop what uses it, or give another --port"
        with pytest.raises(UserError, match=told):
            serve(host=host, port=8000, systems=[], hybrid=False, allowed_hosts=[])


def test_hybrid(root: Path) -> None:
    make_hybrid(1.0, 20)
    with TestClient(create_app(["gnn_encoder"], hybrid=True, hosts=["*"])) as client:
        found = client.get("/search", params={"query": QUERY, "k": 3}).json()["hits"]
        assert client.get("/systems").json()["systems"][0]["title"] == "GNN-encoder and BM25"
    by_words = Searcher.open(project.index("gnn_encoder"), hybrid=True).search(QUERY, 3)
    assert found == [vars(hit) for hit in by_words]
