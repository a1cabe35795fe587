"""What `add` and `delete` cost, and how near an added passage comes to its vector in the build.

    python benchmarks/growing.py [SYSTEM]

It runs in the root of a project where SYSTEM, by default gnn_encoder, is built and nothing was added yet, and leaves it
so. Every command runs in a process of its own. Passages are deleted and added again; then copies of others are added.
"""

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from gnn_encoder.base.matrix import open_matrix
from gnn_encoder.growing.versions import current, folder_of

SIZES = (1, 100, 1_000, 10_000)  # passages that are added at a time
SEED = 5


def run(*arguments: str) -> None:
    """Run a command of gnn-encoder and print what it says, its seconds with the start of Python, and its memory."""
    began, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", _WITH_PEAK, *arguments]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    seconds, now = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    print(f"{told[0]} | with the start {seconds:.1f} s, {busy:.1f} s of a core, {told[1]} MiB", flush=True)


_WITH_PEAK = """
import re
from pathlib import Path
from gnn_encoder.cli import app
app(standalone_mode=False)
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""


def write(folder: str, passages: pl.DataFrame) -> str:
    """Passages as a file to add."""
    path = Path(folder) / "passages.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in passages.rename({"pid": "_id"}).to_dicts()))
    return str(path)


def vectors(system: str, pids: list[str]) -> np.ndarray:
    """The vectors of passages in the version that counts. *Shape:* (pids, d)."""
    version = current(system)
    places = {pid: row for row, pid in enumerate(pl.read_parquet(version.passages)["pid"])}
    return np.asarray(open_matrix(version.embeddings)[[places[pid] for pid in pids]], dtype=np.float64)


def main(system: str = "gnn_encoder") -> None:
    """Delete, add again, compare; then add copies of passages."""
    if folder_of(system).exists():
        sys.exit(f"{folder_of(system)}: exists; run this where nothing was added yet")
    passages = pl.read_parquet(current(system).passages)
    try:
        with tempfile.TemporaryDirectory() as folder:
            some = passages.sample(300, seed=SEED)
            pids = some["pid"].to_list()
            built = vectors(system, pids)
            run("delete", *pids, "--system", system)
            run("add", write(folder, some), "--system", system)
            again = vectors(system, pids)
            cosine = (built * again).sum(1) / np.linalg.norm(built, axis=1) / np.linalg.norm(again, axis=1)
            print(f"cosine with the vectors of the build: mean {cosine.mean():.4f}, lowest {cosine.min():.4f}")
            for size in SIZES:
                copies = passages.sample(size, seed=size).with_columns(pid=f"new-{size}-" + pl.col("pid"))
                run("add", write(folder, copies), "--system", system)
            run("delete", pids[0], "--system", system)
    finally:
        shutil.rmtree(folder_of(system), ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
