"""Milliseconds a query online: the index of the GNN-encoder against that of M_de, query by query in turn.

Runs on the project's own artifacts (after `dvc repro`). One query at a time: encode, search, ids. M_de's index
is measured twice, as two sides of its own, which shows how far equal things differ on this machine. Requirement: the
GNN's index is as fast as M_de's within noise: the 95% interval of the ratio (bootstrap over queries) holds 1, or the
ratio is within 5% of it. Beside it the cold start of `gnn-encoder search`.

    python benchmarks/search_latency.py
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

import harness
import numpy as np
import polars as pl

from gnn_encoder.base.errors import report_errors
from gnn_encoder.base.tables import read_column
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.search.faiss_index import PIDS, PassageIndex
from gnn_encoder.text.encoder import DualEncoder

SIDES = {"dual_encoder": "dual_encoder", "dual_encoder again": "dual_encoder", "gnn_encoder": "gnn_encoder"}
K = 10
WARM_UP = 20
NEAR = 0.05
COMMAND = Path(sys.executable).with_name("gnn-encoder")
COLD_QUERY = "Does home insurance cover vandalism?"


class Searcher:
    """A system as it stands online."""

    def __init__(self, system: str, precision: str) -> None:
        self._encoder = DualEncoder.load(project.encoder(system), precision=precision).for_inference()
        self._index = PassageIndex.open(project.index(system))
        self._pids = read_column(self._index.folder / PIDS, "pid")

    def __call__(self, query: str) -> list[str]:
        """Ids of the best passages."""
        rows, _ = self._index.search(self._encoder.embed_queries([query]), K)
        found: list[str] = self._pids.gather(rows[0]).to_list()
        return found


def measure(searchers: dict[str, Searcher], queries: list[str], seed: int) -> dict[str, np.ndarray]:
    """Milliseconds of every query on every side, the sides in random order. *Shape:* (queries,) each."""
    generator = np.random.default_rng(seed)
    names = list(searchers)
    taken = {name: np.empty(len(queries)) for name in names}
    for i, query in enumerate(queries):
        for place in generator.permutation(len(names)):
            start = time.perf_counter()
            searchers[names[place]](query)
            taken[names[place]][i] = 1e3 * (time.perf_counter() - start)
    return {name: values[WARM_UP:] for name, values in taken.items()}


def ratio(one: np.ndarray, other: np.ndarray) -> dict[str, float]:
    """Ratio of medians with its 95% interval, by bootstrap over queries."""
    rows = np.random.default_rng(0).integers(len(one), size=(2_000, len(one)))
    drawn = np.median(one[rows], axis=1) / np.median(other[rows], axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return {"ratio": float(np.median(one) / np.median(other)), "low": float(low), "high": float(high)}


def cold_start(repeats: int) -> list[float] | None:
    """Seconds of `gnn-encoder search` from nothing; None where the command is not installed."""
    if not COMMAND.is_file():
        return None
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        done = subprocess.run([COMMAND, "search", COLD_QUERY], capture_output=True, text=True)
        found.append(time.perf_counter() - start)
        if done.returncode != 0:
            harness.note(f"gnn-encoder search failed, not measured: {done.stderr.strip().splitlines()[-1:]}")
            return None
    return found


def main() -> None:
    options = harness.parse(harness.parser("search_latency", __doc__), queries=(1_000, 50))
    params = load_params()
    texts = pl.read_parquet(project.queries("test"))["text"].to_list()
    queries = texts[: WARM_UP + options.queries]
    searchers = {side: Searcher(system, params.encoder.precision) for side, system in SIDES.items()}
    taken = measure(searchers, queries, params.seed)
    sides = {
        name: {f"p{q}_ms": float(np.percentile(values, q)) for q in (50, 95)} | {"mean_ms": float(values.mean())}
        for name, values in taken.items()
    }
    harness.print_table(
        ["", "p50, ms", "p95, ms", "mean, ms"],
        [[name, *(f"{side[key]:.2f}" for key in ("p50_ms", "p95_ms", "mean_ms"))] for name, side in sides.items()],
    )
    ours = ratio(taken["gnn_encoder"], taken["dual_encoder"])
    noise = ratio(taken["dual_encoder again"], taken["dual_encoder"])
    for name, found in (("gnn_encoder", ours), ("dual_encoder again", noise)):
        print(f"{name} / dual_encoder: {found['ratio']:.3f} (95% interval {found['low']:.3f} to {found['high']:.3f})")
    cold = cold_start(1 if options.quick else 5)
    if cold is not None:
        print(f"gnn-encoder search, cold: first {cold[0]:.2f} s, median {statistics.median(cold):.2f} s")
    met = ours["low"] <= 1 <= ours["high"] or abs(ours["ratio"] - 1) <= NEAR
    record = {
        "queries": len(queries) - WARM_UP,
        "k": K,
        "sides": sides,
        "ratio": ours,
        "ratio_of_equals": noise,
        "cold_start_seconds": cold,
    }
    p50 = " and ".join(f"{sides[name]['p50_ms']:.2f}" for name in ("gnn_encoder", "dual_encoder"))
    interval = f"{ours['ratio']:.3f} ({ours['low']:.3f} to {ours['high']:.3f})"
    measured = f"p50 {p50} ms, ratio {interval}; of equals {noise['ratio']:.3f}"
    harness.finish(options, "latency of the GNN's index equals M_de's within noise", met, measured, record)


if __name__ == "__main__":
    with report_errors():
        main()
