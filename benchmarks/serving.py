"""Queries a second and latency of `gnn-encoder serve`, against a plain FastAPI around SentenceTransformer and FAISS.

Runs on the project's own artifacts (after `dvc repro`): the same weights, exported for sentence-transformers, the same
vectors, the same queries and the same answers (ten passages with their texts). Both are real processes behind uvicorn
on loopback, with the threads that each takes by itself, asked in turn by the same clients, which keep their
connections. Clients ask the queries of all splits one after the other. Latency is what a client waits. Requirement:
with 64 clients at least three times the peer's queries a second, and a p99 that is no worse.

    python benchmarks/serving.py
    python benchmarks/serving.py --soak 10      # also minutes of load, with the server's memory as it goes
"""

import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import harness
import numpy as np
import polars as pl
import psutil

from gnn_encoder.base.errors import report_errors
from gnn_encoder.export import export_system
from gnn_encoder.pipeline import project

SYSTEM = "gnn_encoder"
K = 10
CLIENTS = (1, 8, 64)
SIDES = ("serve", "peer")
AT_LEAST = 3.0
SHARED = 0.99  # of the passages found, those that both sides must find: rounding orders near ties
Rounds = dict[str, dict[int, list[dict[str, float]]]]  # side -> clients -> a round's figures
FLAT = 0.05  # growth of memory from the end of the first quarter of a soak to its end


def ours(port: int) -> list[str]:
    """The command that starts `gnn-encoder serve`."""
    return [sys.executable, "-m", "gnn_encoder.cli", "serve", "--system", SYSTEM, "--port", str(port)]


def peer(port: int, exported: Path) -> list[str]:
    """The command that starts the peer."""
    return [sys.executable, __file__, "--peer", str(exported), str(port)]


def run_peer(model: str, port: int) -> None:
    """A plain FastAPI around `SentenceTransformer.encode` and FAISS, as tutorials write it."""
    import faiss
    import uvicorn
    from fastapi import FastAPI
    from sentence_transformers import SentenceTransformer

    app = FastAPI()
    encoder = SentenceTransformer(model, device="cpu")
    index = faiss.read_index(str(Path("data") / "indexes" / SYSTEM / "index.faiss"))
    passages = pl.read_parquet(Path("data") / "prepared" / "passages.parquet").to_dicts()

    @app.get("/search")
    def search(query: str, k: int = 10) -> dict[str, object]:
        vectors = encoder.encode([query])
        scores, rows = index.search(vectors, k)
        found = zip(rows[0].tolist(), scores[0].tolist(), strict=True)
        hits = [{"rank": rank, "score": score, **passages[row]} for rank, (row, score) in enumerate(found, 1)]
        return {"query": query, "hits": hits}

    uvicorn.run(app, port=port, log_level="warning", access_log=False)


@contextmanager
def running(command: list[str], port: int, environment: dict[str, str]) -> Iterator[psutil.Process]:
    """A server, from when it answers on."""
    process = subprocess.Popen(command, env=environment, stdout=sys.stderr, stderr=sys.stderr)
    try:
        for _ in range(1_200):
            if process.poll() is not None:
                raise RuntimeError(f"{command[1:4]} ended with status {process.returncode}")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield psutil.Process(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Connection:
    """A client's kept connection. It reads no more of HTTP than it must, so that it takes little of the processor."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> "Connection":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**20)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def search(self, query: str) -> bytes:
        """The body of the answer."""
        self._writer.write(f"GET /search?k={K}&query={quote(query)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head = await self._reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"a request failed: {head[:200]!r}")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return await self._reader.readexactly(int(length[15:]))


async def load(port: int, clients: int, queries: Iterator[str], seconds: float) -> np.ndarray:
    """Milliseconds of every request that clients sent in some time. *Shape:* (requests,)."""
    taken: list[float] = []
    end = time.perf_counter() + seconds

    async def client() -> None:
        async with Connection(port) as connection:
            while (began := time.perf_counter()) < end:
                await connection.search(next(queries))
                taken.append(1e3 * (time.perf_counter() - began))

    await asyncio.gather(*(client() for _ in range(clients)))
    return np.array(taken)


async def found(port: int, queries: list[str]) -> list[list[str]]:
    """Ids that a server finds for some queries."""
    async with Connection(port) as connection:
        return [[hit["pid"] for hit in json.loads(await connection.search(query))["hits"]] for query in queries]


def agree(ports: dict[str, int], queries: list[str]) -> float:
    """The share of passages that both servers find."""
    one, other = (asyncio.run(found(ports[side], queries)) for side in SIDES)
    return statistics.mean(len(set(a) & set(b)) / K for a, b in zip(one, other, strict=True))


def measure(
    ports: dict[str, int], queries: list[str], seconds: float, rounds: int
) -> dict[str, dict[int, list[dict[str, float]]]]:
    """Rounds of each number of clients, the sides in turn."""
    asked = {side: cycle(queries) for side in SIDES}
    rows: Rounds = {side: {n: [] for n in CLIENTS} for side in SIDES}
    for clients in CLIENTS:
        for number in range(rounds):
            for side in SIDES:
                asyncio.run(load(ports[side], clients, asked[side], min(1.0, seconds)))
                began = time.perf_counter()
                taken = asyncio.run(load(ports[side], clients, asked[side], seconds))
                rate = len(taken) / (time.perf_counter() - began)
                p50, p99 = np.percentile(taken, [50, 99])
                rows[side][clients].append({"queries_per_second": rate, "p50_ms": float(p50), "p99_ms": float(p99)})
                harness.note(f"{clients} clients, round {number + 1}/{rounds}: {side} {rate:.0f} queries/s")
    return rows


def middle(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Medians over rounds."""
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}


def soak(port: int, process: psutil.Process, queries: list[str], minutes: float) -> dict[str, object]:
    """Load by 8 clients for a while, with the server's own memory, which mapped files are not counted in."""
    asked, taken, memory = cycle(queries), 0, []
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        taken += len(asyncio.run(load(port, 8, asked, min(15.0, 60 * minutes / 8))))
        used = process.memory_info()
        memory.append((used.rss - used.shared) / 2**20)
        harness.note(f"soak: {taken} requests, {memory[-1]:.0f} MiB")
    settled = memory[len(memory) // 4]
    return {"minutes": minutes, "requests": taken, "mebibytes": memory, "growth": memory[-1] / settled - 1}


def main() -> None:
    parser = harness.parser("serving", __doc__)
    parser.add_argument("--soak", type=float, default=0.0, metavar="MINUTES", help="also load ours for so long")
    parser.add_argument("--threads", type=int, help="of each server; default: what each takes by itself")
    options = harness.parse(parser, seconds=(15.0, 2.0))  # of a round
    seconds, rounds = options.seconds, 1 if options.quick else 3
    queries = [text for split in ("test", "dev", "train") for text in pl.read_parquet(project.queries(split))["text"]]
    source = str(Path(__file__).resolve().parent.parent / "src")
    environment = os.environ | {"PYTHONPATH": source}
    if options.threads:
        environment |= {"OMP_NUM_THREADS": str(options.threads)}
    with TemporaryDirectory() as folder:
        exported = Path(folder) / "model"
        export_system(SYSTEM, "sentence-transformers", exported)
        ports = {side: free_port() for side in SIDES}
        commands = {"serve": ours(ports["serve"]), "peer": peer(ports["peer"], exported)}
        with (
            running(commands["serve"], ports["serve"], environment),
            running(commands["peer"], ports["peer"], environment),
        ):
            alike = agree(ports, list(islice(queries, 50)))
            rows = measure(ports, queries, seconds, rounds)
        soaked = None
        if options.soak:
            with running(commands["serve"], ports["serve"], environment) as process:
                soaked = soak(ports["serve"], process, queries, options.soak)
    sides = {side: {clients: middle(of) for clients, of in rows[side].items()} for side in SIDES}
    tell(sides, alike, soaked)
    most = {side: sides[side][CLIENTS[-1]] for side in SIDES}
    ratio = most["serve"]["queries_per_second"] / most["peer"]["queries_per_second"]
    met = ratio >= AT_LEAST and most["serve"]["p99_ms"] <= most["peer"]["p99_ms"] and alike >= SHARED
    text = f"at {CLIENTS[-1]} clients at least {AT_LEAST:.0f} times the peer's queries a second and no worse p99"
    record = {
        "threads": options.threads,
        "seconds": seconds,
        "rounds": rounds,
        "k": K,
        "sides": sides,
        "ratio": ratio,
        "same_passages": alike,
        "soak": soaked,
    }
    rates, p99 = ([most[side][of] for side in SIDES] for of in ("queries_per_second", "p99_ms"))
    flat = f"; memory {soaked['growth']:+.1%} in {soaked['minutes']:.0f} minutes" if soaked else ""
    each = f"{rates[0]:.0f} queries/s, peer {rates[1]:.0f}: {ratio:.2f}x"
    harness.finish(options, text, met, f"{each}; p99 {p99[0]:.0f} and {p99[1]:.0f} ms{flat}", record)


def tell(sides: dict[str, dict[int, dict[str, float]]], alike: float, soaked: dict[str, object] | None) -> None:
    harness.print_table(
        ["", "clients", "queries/s", "p50, ms", "p99, ms"],
        [
            [side, clients, *(f"{one[key]:.1f}" for key in ("queries_per_second", "p50_ms", "p99_ms"))]
            for clients in CLIENTS
            for side, one in ((side, sides[side][clients]) for side in SIDES)
        ],
    )
    print(f"both find the same passages in {100 * alike:.2f}% of places")
    if soaked:
        verdict = "flat" if float(str(soaked["growth"])) <= FLAT else "NOT FLAT"
        print(f"soak: {soaked['requests']} requests, memory {100 * float(str(soaked['growth'])):+.1f}%: {verdict}")


if __name__ == "__main__" and sys.argv[1:2] == ["--peer"]:
    run_peer(sys.argv[2], int(sys.argv[3]))
elif __name__ == "__main__":
    with report_errors():
        main()
