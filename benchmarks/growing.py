"""What growing costs: seconds and memory of each command, for 1 to 10,000 passages at a time.

    python benchmarks/growing.py [SYSTEM]

It runs in the root of a project where SYSTEM, by default gnn_encoder, is built and nothing was added yet, and leaves it
so. How near an addition comes to a build: growing_against_build.py.
"""

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gnn_encoder.growing.place import folder_of
from gnn_encoder.growing.search import GrownIndex
from gnn_encoder.index.search import PassageIndex
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.systems import registry

SIZES = (1, 100, 1000, 10_000)  # passages that are added at a time
LOGGED = 100  # queries that are logged at a time
QUERIES = 300
SEED = 5


def run(*arguments: str) -> None:
    """Run a command of gnn-encoder and print what it says, its seconds with the start of Python, and its memory."""
    began, before, peak = time.perf_counter(), _processor_seconds(), 0
    command = [sys.executable, "-m", "gnn_encoder.cli", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        while process.poll() is None:
            peak = max(peak, _peak_kilobytes(process.pid))
            time.sleep(0.05)
        told = process.stdout.read().strip() if process.stdout else ""
    seconds, busy = time.perf_counter() - began, _processor_seconds() - before
    told = told or "failed"
    print(
        f"{arguments[0]}: {told} | with the start {seconds:.1f} s, {busy:.1f} s of a core, {peak / 1024:.0f} MiB",
        flush=True,
    )


def _processor_seconds() -> float:
    """What all commands so far took of a core: other programs beside them do not lengthen it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _peak_kilobytes(process: int) -> int:
    """The most memory that a process has had so far; rusage gives a child its parent's, where that is more."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


def write(folder: Path, name: str, rows: Sequence[dict[str, Any]]) -> str:
    """Passages as a file."""
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def tell_search(system: str, name: str) -> None:
    """Print how long the index alone takes for one query, by the median of `QUERIES` random ones."""
    base = PassageIndex.open(project.index(system))
    index = GrownIndex.open(base) or base
    queries = np.random.default_rng(SEED).normal(size=(QUERIES, 1, base.dimension)).astype(np.float32)
    taken = []
    for query in queries:
        began = time.perf_counter()
        index.search(query, 10)
        taken.append(1e3 * (time.perf_counter() - began))
    print(f"search, {name}: {np.median(taken):.2f} ms a query", flush=True)


def main(system: str = "gnn_encoder") -> None:
    if folder_of(system).exists():
        sys.exit(f"{folder_of(system)}: exists; run this where nothing was added yet")
    passages, asked = pl.read_parquet(project.PASSAGES), pl.read_parquet(project.queries("dev"))["text"].to_list()
    try:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            tell_search(system, "the build")
            first = [{"_id": "first", "text": "The first command embeds the graph's queries."}]
            run("add", write(folder, "first", first), "--system", system)
            for size in SIZES:
                some = passages.sample(size, seed=SEED + size).select(_id=f"new-{size}-" + pl.col("pid"), text="text")
                run("add", write(folder, f"new-{size}", some.to_dicts()), "--system", system)
                run("delete", some["_id"][0], "--system", system)
            tell_search(system, "with all these")
            if system in registry().graphs:
                log = folder / "log.tsv"
                log.write_text("\n".join(asked[:LOGGED]))
                run("log", str(log), "--system", system)
            run("compact", "--system", system)
            tell_search(system, "after compact")
            run("compact", "--all", "--system", system)
            tell_search(system, "after compact --all")
    finally:
        shutil.rmtree(folder_of(system), ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
