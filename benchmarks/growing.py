"""What growing costs, and how near it comes to the build: passages of a built index are deleted and added again.

    python benchmarks/growing.py [SYSTEM]

It runs in the root of a project where SYSTEM, by default gnn_encoder, is built and nothing was added yet, and leaves it
so. A passage's own encoding is the same in the build and in an addition, but for rounding in other batches. What may
differ is its edges: the build compares all passages, an addition only with the score of a query's last one. The last
part deletes all these passages and adds them under other ids, as if nobody had ever asked for them.
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

from gnn_encoder.core import project
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.params import load_params
from gnn_encoder.core.storage.arrays import open_matrix
from gnn_encoder.growing.encoding import TextEncoder
from gnn_encoder.growing.overlay import read_manifest
from gnn_encoder.growing.place import folder_of
from gnn_encoder.growing.search import GrownIndex
from gnn_encoder.growing.segment import Segment
from gnn_encoder.index.search import PassageIndex

AGAIN = 300  # passages that are deleted and added again
SIZES = (1, 100, 1000, 10_000)  # passages that are added at a time
LOGGED = 100  # queries that are logged at a time
SEED = 5
K = 10


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


def reciprocal_rank(found: np.ndarray, queries: np.ndarray, relevant: pl.DataFrame) -> float:
    """RR@10 over the judged queries. *Shape:* found (queries, K), rows of passages.parquet; queries (n,)."""
    pairs = set(relevant.select("query", "passage").iter_rows())
    hits = np.array(
        [[(query, row) in pairs for row in rows] for query, rows in zip(queries, found.tolist(), strict=True)]
    )
    return float((hits / np.arange(1, K + 1)).max(axis=1).mean())


def built_rows(grown: GrownIndex, passages: pl.DataFrame) -> np.ndarray:
    """The row in passages.parquet of every passage of a grown index, by its id without `again-`; -1 for new ones."""
    row = {pid: i for i, pid in enumerate(passages["pid"])}
    tables = [pl.read_parquet(one.passages)["pid"] for one in grown.overlay.segments if one.entry.passages]
    added = [row.get(pid.removeprefix("again-"), -1) for pids in tables for pid in pids]
    return np.concatenate([np.arange(len(passages)), np.array(added, dtype=np.int64), [-1]])


def compare(segment: Segment, built: np.ndarray) -> None:
    """Print the cosines of the vectors that were added again with those of the build. *Shape:* built (b, d)."""
    added = np.asarray(segment.vectors)
    lengths = np.linalg.norm(added, axis=1) * np.linalg.norm(built, axis=1)
    cosine = np.einsum("bd,bd->b", added, built) / lengths
    print(
        f"cosine with the build: mean {cosine.mean():.5f}, 5% {np.quantile(cosine, 0.05):.5f}, least {cosine.min():.5f}"
    )
    if segment.edges.is_file():
        edges = pl.read_parquet(segment.edges).filter(pl.col("query") >= 0)
        print(f"edges: {len(edges)} of {len(added)} passages, {edges['labelled'].sum()} of them labelled")


def main(system: str = "gnn_encoder") -> None:
    if folder_of(system).exists():
        sys.exit(f"{folder_of(system)}: exists; run this where nothing was added yet")
    passages = pl.read_parquet(project.PASSAGES)
    relevant = relevant_pairs(project.queries("dev"), project.qrels("dev"), project.PASSAGES)
    asked = relevant["query"].unique().sort().to_numpy()
    texts = pl.read_parquet(project.queries("dev"))["text"].gather(asked).to_list()
    queries = TextEncoder(project.encoder(system), load_params()).queries(texts)
    index = PassageIndex.open(project.index(system))
    rows = np.sort(np.random.default_rng(SEED).choice(len(passages), AGAIN, replace=False))
    chosen = passages[rows]
    vectors = open_matrix(project.embeddings(system))[rows].astype(np.float32)

    def judge(name: str) -> None:
        grown = GrownIndex.open(index)
        found = (
            index.search(queries, K)[0] if grown is None else built_rows(grown, passages)[grown.search(queries, K)[0]]
        )
        print(f"dev RR@10 {name}: {reciprocal_rank(found, asked, relevant):.4f}")
        if grown is not None and (last := grown.overlay.segments[-1]).entry.passages == AGAIN:
            compare(last, vectors)

    try:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            judge("of the build")
            first = write(folder, "first", [{"_id": "first", "text": "The first command embeds the graph's queries."}])
            run("add", first, "--system", system)
            run("delete", "first", "--system", system)
            run("delete", *chosen["pid"], "--system", system)
            judge(f"without {AGAIN} passages")
            run("add", write(folder, "again", chosen.rename({"pid": "_id"}).to_dicts()), "--system", system)
            judge("with these added again")
            run("delete", *chosen["pid"], "--system", system)
            new = chosen.select(_id="again-" + pl.col("pid"), title="title", text="text")
            run("add", write(folder, "new", new.to_dicts()), "--system", system)
            judge("with these added under other ids")
            for size in SIZES:
                some = passages.sample(size, seed=SEED + size).select(_id=f"new-{size}-" + pl.col("pid"), text="text")
                run("add", write(folder, f"new-{size}", some.to_dicts()), "--system", system)
            if (manifest := read_manifest(system)) and (folder_of(system) / f"nodes-{manifest.index}").is_dir():
                log = folder / "log.tsv"
                log.write_text("\n".join(texts[:LOGGED]))
                run("log", str(log), "--system", system)
            run("compact", "--system", system)
            run("compact", "--all", "--system", system)
    finally:
        shutil.rmtree(folder_of(system), ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
