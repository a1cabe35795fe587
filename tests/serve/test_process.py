"""What a server that runs does of what is built beside it, how it stops, and the errors of the command."""

import re
import shutil
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

from gnn_encoder import Searcher
from gnn_encoder.base.errors import UserError
from gnn_encoder.pipeline import project
from gnn_encoder.search.faiss_index import PIDS, build
from gnn_encoder.searcher import Answer
from gnn_encoder.serve import Served, create_app, listen, serve

from ..project import refusal
from ..small import make_hybrid
from .conftest import QUERY, Server, serving


def test_a_restart_takes_what_was_built_anew(built_copy: Path) -> None:
    """Until then the server searches what it opened, here for four clients at a time, and explains no other build."""

    def pids(client: TestClient) -> list[str]:
        return [hit["pid"] for hit in client.get("/search", params={"query": QUERY, "k": 100}).json()["hits"]]

    running, index = TestClient(create_app(hosts=["*"])), project.index("gnn_encoder_plus")
    before = pids(running)
    manifest = project.GRAPH / "manifest.json"
    kept = manifest.read_text()
    manifest.unlink()  # while another graph is made: rows may be others before the index is
    assert running.get("/explain", params={"pid": "city-2"}).status_code == 409
    manifest.write_text(kept)
    assert running.get("/explain", params={"pid": "city-2"}).status_code == 200
    shutil.rmtree(index)
    other, encoder = project.embeddings("dual_encoder"), project.encoder("gnn_encoder")
    build(other, index, factory="Flat", pids=project.PASSAGES, system="other", encoder=encoder, seed=1)
    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(pids, [running] * 4)] == [before] * 4
    explained = running.get("/explain", params={"pid": "city-2"})
    assert explained.status_code == 409 and "was built anew: restart the server" in explained.json()["detail"]
    assert pids(TestClient(create_app(hosts=["*"]))) != before
    rows = pq.read_table(index / PIDS)
    pq.write_table(rows.take([*range(len(rows) - 2), len(rows) - 1, len(rows) - 2]), index / PIDS)
    with pytest.raises(UserError, match="made of other passages than now"):
        create_app()


def test_queries_that_wait_are_answered_together(built_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the first one is, each gets its own answer; an error reaches all that it is of, and nobody after them."""
    served, sizes, alone = Served("gnn_encoder", hybrid=False), list[int](), Searcher.answer
    expected = {text: alone(served.searcher, [text], 3)[0] for text in ("milk", "bread", "a city", "oven")}

    def answer(searcher: Searcher, queries: list[str], k: int) -> list[Answer]:
        sizes.append(len(queries))
        time.sleep(0.5 if len(sizes) == 1 else 0)
        if "fail" in queries:
            raise RuntimeError("a bug")
        return alone(searcher, queries, k)

    monkeypatch.setattr(Searcher, "answer", answer)
    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(served.search, "milk", 3)
        time.sleep(0.1)
        found = {text: pool.submit(served.search, text, 3) for text in expected}
        for text, one in {**found, "milk": first}.items():
            answered = one.result()
            assert [hit.pid for hit in answered.hits] == [hit.pid for hit in expected[text].hits]
            scores = [[hit.score for hit in of.hits] for of in (answered, expected[text])]
            np.testing.assert_allclose(*scores, rtol=1e-5)
    assert sizes == [1, 4]
    with pytest.raises(RuntimeError, match="a bug"):
        served.search("fail", 3)
    assert len(served.search("milk", 2).hits) == 2


def test_an_answer_does_not_wait_for_an_acknowledgement() -> None:
    with listen("127.0.0.1", 0) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert client.recv(1) == b""


def test_a_server_that_is_ended_answers_what_it_has_accepted(built_copy: Path, tmp_path: Path) -> None:
    """An explanation, which opens the graph first, so that it takes a while."""
    with serving(built_copy, tmp_path / "log.txt") as server, ThreadPoolExecutor() as pool:
        answer = pool.submit(server.get, "/explain", pid="city-2")
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        assert answer.result().status_code == 200 and server.process.wait(20) in (0, -signal.SIGTERM)
        assert "Traceback" not in server.log.read_text()


def test_the_command_tells_what_is_wrong_in_one_line(built_copy: Path, server: Server) -> None:
    for options, told in (
        (["--system", "pair", "--port", "0"], "data/indexes/pair/manifest.json: not built yet"),
        (["--system", "bm25", "--port", "0"], "--system is 'bm25': must be all or one of untouched, "),
        (["--port", server.url.rpartition(":")[2]], "Address already in use; stop what uses it"),
    ):
        assert told in refusal("serve", *options)
    for wrong in (["--host", ""], ["--allow-host", "a*b"], ["--allow-host", "name:8000"]):
        assert f"{wrong[0]} is " in refusal("serve", *wrong)
    for host in ("192.0.2.1", "no-such-name.invalid"):
        told = rf"^{re.escape(host)}:8000: .*[a-z]; stop what uses it, or give another --port"
        with pytest.raises(UserError, match=told):
            serve(host=host, port=8000, systems=[], hybrid=False, allowed_hosts=[])


def test_hybrid(built_copy: Path) -> None:
    make_hybrid(1.0, 20)
    client = TestClient(create_app(["gnn_encoder"], hybrid=True, hosts=["*"]))
    found = client.get("/search", params={"query": QUERY, "k": 3}).json()["hits"]
    assert client.get("/systems").json()["systems"][0]["title"] == "GNN-encoder and BM25"
    by_words = Searcher.open(project.index("gnn_encoder"), hybrid=True).search(QUERY, 3)
    assert found == [vars(hit) for hit in by_words]
