"""Real servers: what they import, how they stop, and how they take over what is built beside them."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gnn_encoder.core.storage.arrays import MATRIX
from gnn_encoder.growing.commands import add, delete
from gnn_encoder.growing.versions import current
from gnn_encoder.index.build import build
from gnn_encoder.pipeline import project

from ..project import ROOT
from .conftest import Server, Start

QUERY = "Which milk is halloumi made with?"


def until(holds: Callable[[], Any], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def libraries(server: Server) -> set[str]:
    """Torch's and FAISS's shared libraries that the process has mapped."""
    maps = Path(f"/proc/{server.process.pid}/maps")
    if not maps.is_file():
        pytest.skip("no /proc here: what a process has mapped cannot be read")
    return set(re.findall(r"libtorch_cpu|_swigfaiss", maps.read_text()))


def test_the_serving_process_has_no_torch(server: Server) -> None:
    for path in ("/search", "/explain"):
        assert server.get(path, query=QUERY, pid="city-2").status_code == 200
    assert libraries(server) == {"_swigfaiss"}


def test_a_search_loads_faiss_without_torch(root: Path) -> None:
    """Both together crash on macOS. Nor does it wait for libraries that it does not need."""
    code = (
        "import sys; from pathlib import Path; from gnn_encoder.cli import app\n"
        f"app(['search', {QUERY!r}, *sys.argv[1:]], standalone_mode=False)\n"
        "maps = Path('/proc/self/maps')\n"
        "mapped = maps.is_file() and 'libtorch' in maps.read_text()\n"
        "print(mapped, *({'faiss', 'torch', 'transformers', 'polars', 'gnn_encoder.data.prepare'} & set(sys.modules)))"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}

    def loaded(*options: str) -> str:
        command = [sys.executable, "-c", code, *options]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True, env=environment)
        assert done.stdout.count("\n     ") >= 10 and done.stderr == ""
        return done.stdout.splitlines()[-1]

    assert loaded() == loaded("--system", "dual_encoder") == "False faiss"
    delete("gnn_encoder", ["city-2"])
    assert loaded() == "False faiss"


def test_serving_imports_no_torch(built: Path) -> None:
    code = (
        "import sys; from gnn_encoder.serving.app import create_app; from fastapi.testclient import TestClient\n"
        "with TestClient(create_app(hosts=None)) as client:\n"
        "    assert client.get('/search?query=milk').status_code == 200\n"
        "print(sorted({'torch', 'transformers', 'polars'} & set(sys.modules)))"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=built, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "[]\n"


def test_the_process_that_explains_has_no_faiss(root: Path) -> None:
    """Neither for a passage of the build nor for one that was added."""
    (root / "new.jsonl").write_text(json.dumps({"_id": "new", "text": "Halloumi is made of milk."}) + "\n")
    add("gnn_encoder", root / "new.jsonl")
    code = (
        "import sys; from gnn_encoder.serving import explainer; from gnn_encoder.serving.explaining import explain\n"
        f"built = explain('gnn_encoder', {row_of('city-2')}, 'city-2')\n"
        f"added = explain('gnn_encoder', {row_of('new')}, 'new')\n"
        "print('faiss' in sys.modules, 'torch' in sys.modules,\n"
        "      *(len(one['attention_to_itself_by_head']) for one in (built, added)))"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "False True 4 4\n"


def row_of(pid: str) -> int:
    return pl.read_parquet(current("gnn_encoder").passages)["pid"].to_list().index(pid)


def test_sigterm_lets_requests_end_and_then_ends_the_server(start: Start) -> None:
    """The first explanation waits for its process, so that the answer takes a while; the signal comes in between."""
    server = start("--drain", "120")
    answers: list[httpx.Response] = []
    request = threading.Thread(target=lambda: answers.append(server.get("/explain", query=QUERY, pid="city-2")))
    request.start()
    until(lambda: children(server))
    server.process.send_signal(signal.SIGTERM)
    request.join()
    assert answers[0].status_code == 200 and answers[0].json()["graph"]
    assert server.process.wait(20) in (0, -signal.SIGTERM)
    with pytest.raises(httpx.TransportError):
        server.get("/health")
    assert "Traceback" not in server.log.read_text()


def test_sigterm_ends_the_worker_too(start: Start) -> None:
    server = start("--explain")
    until(lambda: children(server))
    worker = children(server)[0]
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(20)
    until(lambda: not running(worker))


def children(server: Server) -> list[int]:
    import psutil

    processes = psutil.Process(server.process.pid).children()  # and Python's own, which tracks what processes share
    alive = [one for one in processes if one.status() != psutil.STATUS_ZOMBIE]
    return [one.pid for one in alive if "spawn_main" in " ".join(one.cmdline())]


def running(process: int) -> bool:
    import psutil

    return bool(psutil.pid_exists(process)) and psutil.Process(process).status() != psutil.STATUS_ZOMBIE


def rebuilt(scratch: Path) -> Path:
    """A new index of the system gnn_encoder, whose best passage for any query is `city-2`."""
    matrix = project.embeddings("gnn_encoder")
    pids = pq.read_table(project.PASSAGES)["pid"].to_pylist()
    copy = scratch / "embeddings"
    shutil.copytree(matrix, copy)
    values = np.load(copy / MATRIX).astype(np.float32) * 0.001
    queries = np.load(matrix / MATRIX).astype(np.float32)
    values[pids.index("city-2")] = 100 * queries.mean(axis=0)
    np.save(copy / MATRIX, values.astype(np.float16))
    build(copy, scratch / "index", factory="Flat", pids=project.PASSAGES, system="gnn_encoder", seed=1)
    manifest = json.loads((scratch / "index" / "manifest.json").read_text())
    assert manifest["fingerprint"] != json.loads((project.index("gnn_encoder") / "manifest.json").read_text())
    return scratch / "index"


class Load:
    """Clients that search all the time, and note what they find and what fails."""

    def __init__(self, server: Server, clients: int = 4) -> None:
        self.first: set[str] = set()
        self.failures: list[str] = []
        self.answers = 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._search, args=(server,)) for _ in range(clients)]

    def _search(self, server: Server) -> None:
        with httpx.Client(base_url=server.url, timeout=30) as client:
            while not self._stop.is_set():
                response = client.get("/search", params={"query": QUERY, "k": 3})
                self.answers += 1
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
    pid: str = server.get("/search", query=QUERY, k=1).json()["hits"][0]["pid"]
    return pid


def test_a_new_index_is_taken_over_under_load_without_a_failed_request(
    root: Path, start: Start, tmp_path: Path
) -> None:
    """Its folder is first missing and then half there, as while it is built; the old one answers all the while."""
    new, folder = rebuilt(tmp_path), project.index("gnn_encoder")
    server = start()
    before = best(server)
    assert before != "city-2"
    with Load(server) as load:
        shutil.rmtree(folder)
        time.sleep(0.5)
        folder.mkdir()
        for name in ("manifest.json", "pids.parquet"):
            shutil.copy(new / name, folder / name)
        time.sleep(0.5)
        assert best(server) == before
        half = (new / "index.faiss").read_bytes()
        (folder / "index.faiss").write_bytes(half[: len(half) // 2])
        time.sleep(0.5)
        assert best(server) == before
        (folder / ".index.faiss").write_bytes(half)
        (folder / ".index.faiss").replace(folder / "index.faiss")
        until(lambda: best(server) == "city-2")
        time.sleep(0.3)
    assert load.failures == [] and load.answers > 100
    assert load.first == {before, "city-2"}
    assert 'indexes_taken_over_total{system="gnn_encoder"} 1.0' in server.get("/metrics").text
    assert "cannot be taken over yet" in server.log.read_text()


def test_an_index_of_other_passages_is_not_taken_over(root: Path, start: Start) -> None:
    server = start()
    before = best(server)
    folder = project.index("gnn_encoder")
    table = pq.read_table(folder / "pids.parquet")
    names = table["pid"].to_pylist()
    names[5], names[6] = names[6], names[5]
    pq.write_table(pa.table([names], schema=table.schema), folder / ".pids")
    (folder / ".pids").replace(folder / "pids.parquet")
    until(lambda: "made of other passages than now" in server.log.read_text())
    time.sleep(0.5)
    assert best(server) == before
    assert server.log.read_text().count("cannot be taken over yet") == 1  # told once, not at every look


def test_a_port_in_use_and_what_is_not_built(built: Path, server: Server) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}

    def serve(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gnn_encoder.cli", "serve", *options]
        return subprocess.run(command, cwd=built, capture_output=True, text=True, env=environment, timeout=60)

    done = serve("--system", "pair")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("error: data/indexes/pair/manifest.json: no such file")
    assert done.stderr.count("\n") == 1
    done = serve("--poll", "0")
    assert done.returncode == 2 and done.stderr == "error: poll is 0.0: must be a number above 0\n"
    done = serve("--port", server.url.rpartition(":")[2])
    assert done.returncode == 2 and "Address already in use; stop the other server" in done.stderr
    assert done.stderr.count("\n") == 1


def test_hybrid(root: Path, start: Start) -> None:
    from gnn_encoder.baselines.choice import Choice, Tried, write_choice
    from gnn_encoder.index.bm25 import BM25Index
    from gnn_encoder.index.params import BM25

    BM25Index.build(project.PASSAGES, BM25(k1=0.9, b=0.4, depth=5)).save(project.index("bm25"))
    words = Tried(setting={"by": "scores", "weight": 1.0}, value=0.5)
    facts: dict[str, Any] = {"dense": "gnn_encoder", "depth": 20}
    write_choice(project.RUNS / "hybrid", Choice(measure="RR@10", queries=1, chosen=words, tried=[words], facts=facts))
    server = start("--hybrid")
    found = server.get("/search", query=QUERY, k=3, hybrid=True).json()
    rows, _ = BM25Index.open(project.index("bm25")).search([QUERY], 3)
    pids = pq.read_table(project.PASSAGES)["pid"].to_pylist()
    assert found["hybrid"] is True and [hit["pid"] for hit in found["hits"]] == [pids[row] for row in rows[0]]

    dense = Tried(setting={"by": "scores", "weight": 0.0}, value=0.6)
    write_choice(project.RUNS / "hybrid", Choice(measure="RR@10", queries=1, chosen=dense, tried=[dense], facts=facts))
    alone = [hit["pid"] for hit in server.get("/search", query=QUERY, k=3).json()["hits"]]
    assert alone != [hit["pid"] for hit in found["hits"]]
    fused: dict[str, Any] = {"query": QUERY, "k": 3, "hybrid": True}
    until(lambda: [hit["pid"] for hit in server.get("/search", **fused).json()["hits"]] == alone)
