"""How a server takes over what is built beside it, and how it stops; and the errors of the command."""

import json
import re
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

from gnn_encoder import Searcher
from gnn_encoder import serve as module
from gnn_encoder.add import add_passages
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.matrix import MATRIX
from gnn_encoder.pipeline import project
from gnn_encoder.search.faiss_index import build
from gnn_encoder.serve import create_app, serve

from ..project import refusal
from ..small import make_hybrid
from .conftest import QUERY, Server, serving

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


def states(new: Path) -> Iterator[str]:
    """An index is first missing, then half there, then of other passages, if not of the best one, and at last whole."""
    folder, pids = project.index("gnn_encoder"), pq.read_table(new / "pids.parquet")
    shutil.rmtree(folder)
    yield "not built yet"
    folder.mkdir()
    for name in ("manifest.json", "pids.parquet"):
        shutil.copy(new / name, folder)
    whole = (new / "index.faiss").read_bytes()
    (folder / "index.faiss").write_bytes(whole[: len(whole) // 2])
    yield "not a readable FAISS index"
    (folder / "index.faiss").write_bytes(whole)
    pq.write_table(pids.take([*range(len(pids) - 2), len(pids) - 1, len(pids) - 2]), folder / "pids.parquet")
    yield "made of other passages than now"
    shutil.copy(new / "pids.parquet", folder)
    yield ""


def test_what_is_added_or_built_anew_is_taken_over(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As soon as it is whole: the old index answers all the while, four clients at a time."""
    monkeypatch.setattr(module, "LOOK", 0)
    with TestClient(create_app(hosts=["*"])) as client, ThreadPoolExecutor(4) as pool:

        def found(query: str) -> list[str]:
            return [hit["pid"] for hit in client.get("/search", params={"query": query, "k": 100}).json()["hits"]]

        assert "new-1" not in found(NEW["text"])
        (root / "new.jsonl").write_text(json.dumps(NEW) + "\n", encoding="utf-8")
        add_passages("gnn_encoder", root / "new.jsonl")
        assert "new-1" in found(NEW["text"])
        counts = {one["name"]: one["passages"] for one in client.get("/systems").json()["systems"]}
        assert counts == {"gnn_encoder": 121, "dual_encoder": 120}
        added = client.get("/explain", params={"pid": "new-1"})
        assert added.status_code == 409 and "was added after the build" in added.json()["detail"]
        before = found(QUERY)
        for told in states(rebuilt(tmp_path / "matrix")):
            caplog.clear()
            now, *others = pool.map(found, [QUERY] * 4)
            assert others == [now] * 3
            assert (now == before and told in caplog.text) if told else now[0] == "city-2" != before[0]


def test_a_server_that_is_ended_answers_what_it_has_accepted(root: Path, tmp_path: Path) -> None:
    """An explanation, which opens the graph first, so that it takes a while."""
    with serving(root, tmp_path / "log.txt") as server, ThreadPoolExecutor() as pool:
        answer = pool.submit(server.get, "/explain", pid="city-2")
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        assert answer.result().status_code == 200 and server.process.wait(20) in (0, -signal.SIGTERM)
        assert "Traceback" not in server.log.read_text()


def test_the_command_tells_what_is_wrong_in_one_line(root: Path, server: Server) -> None:
    for options, told in (
        (["--system", "pair", "--port", "0"], "data/indexes/pair/manifest.json: not built yet"),
        (["--system", "bm25", "--port", "0"], "--system is 'bm25': must be all or one of untouched, "),
        (["--port", server.url.rpartition(":")[2]], "Address already in use; stop what uses it"),
    ):
        assert told in refusal("serve", *options)
    for host in ("192.0.2.1", "no-such-name.invalid"):
        told = rf"^{re.escape(host)}:8000: .*[a-z]; stop what uses it, or give another --port"
        with pytest.raises(UserError, match=told):
            serve(host=host, port=8000, systems=[], hybrid=False, allowed_hosts=[])


def test_hybrid(root: Path) -> None:
    make_hybrid(1.0, 20)
    client = TestClient(create_app(["gnn_encoder"], hybrid=True, hosts=["*"]))
    found = client.get("/search", params={"query": QUERY, "k": 3}).json()["hits"]
    assert client.get("/systems").json()["systems"][0]["title"] == "GNN-encoder and BM25"
    by_words = Searcher.open(project.index("gnn_encoder"), hybrid=True).search(QUERY, 3)
    assert found == [vars(hit) for hit in by_words]
