"""Time and peak memory of `GNNEncoder.fit` and `transform` on synthetic vectors, at several sizes of corpus.

Vectors of 384 columns are drawn at random, passages block by block into a mapped file; each query lies near the passage
that it is labelled with. Each size runs in a process of its own. `peak` is the kernel's account of resident memory
(ru_maxrss), pages of mapped files included; `anonymous` is what is held at the end without these. Requirement: a
million passages with 100,000 queries stay below 24 GiB.

    python benchmarks/estimator.py
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import harness
import numpy as np

COLUMNS, DEV, BLOCK = 384, 2_000, 65_536
PASSAGES, QUERIES = [100_000, 1_000_000], 100_000
LIMIT_GIB = 24


def main() -> None:
    parser = harness.parser("estimator", __doc__)
    parser.add_argument("--passages", type=int, nargs="+", help=f"default: {PASSAGES}")
    parser.add_argument("--queries", type=int, help=f"default: {QUERIES}")
    parser.add_argument("--one", action="store_true", help="one size, in this process")
    options = parser.parse_args()
    sizes = options.passages or ([5_000] if options.quick else PASSAGES)
    queries = options.queries or (1_000 if options.quick else QUERIES)
    if options.one:
        print(json.dumps(measure(sizes[0], queries)))
        return
    runs = [run_apart(passages, queries) for passages in sizes]
    names = ["passages", "fit_seconds", "transform_seconds", "peak_gib", "anonymous_gib"]
    harness.print_table(names, [[run[name] for name in names] for run in runs])
    text = f"{max(sizes)} passages with {queries} queries stay below {LIMIT_GIB} GiB"
    met = runs[-1]["peak_gib"] < LIMIT_GIB
    verdict = harness.requirement(text, met, options.quick)
    harness.finish("estimator", options, {"columns": COLUMNS, "queries": queries, "runs": runs, "verdict": verdict})


def run_apart(passages: int, queries: int) -> dict[str, float]:
    """`measure` in a process of its own, whose account begins with nothing."""
    harness.note(f"{passages} passages")
    command = [sys.executable, __file__, "--one", "--passages", str(passages), "--queries", str(queries)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


def measure(passages: int, queries: int) -> dict[str, float]:
    """Fit and transform once."""
    from gnn_encoder import GNNEncoder

    with TemporaryDirectory(prefix="gnn-encoder-benchmark-") as name:
        matrix, out = (
            np.lib.format.open_memmap(Path(name) / file, mode="w+", dtype=np.float32, shape=(passages, COLUMNS))
            for file in ("passages.npy", "informed.npy")
        )
        draw = np.random.default_rng(0)
        for first in range(0, passages, BLOCK):
            block = matrix[first : first + BLOCK]
            block[:] = unit(draw.normal(size=block.shape))
        asked = np.sort(draw.integers(passages, size=queries + DEV))
        near = unit(matrix[asked] + 0.05 * draw.normal(size=(queries + DEV, COLUMNS)))
        order = draw.permutation(queries + DEV)
        train, dev = (np.stack([np.arange(len(rows)), asked[rows]], axis=1) for rows in (order[DEV:], order[:DEV]))
        began = time.perf_counter()
        gnn = GNNEncoder().fit(matrix, near[order[DEV:]], train, dev=(near[order[:DEV]], dev))
        fitted = time.perf_counter()
        gnn.transform(matrix, out=out)
        ended = time.perf_counter()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        "passages": passages,
        "steps": sum(row["loss"] is not None for row in gnn.history_),
        "fit_seconds": round(fitted - began, 1),
        "transform_seconds": round(ended - fitted, 1),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "anonymous_gib": round(int(status["RssAnon"].split()[0]) / 2**20, 2),
    }


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows of length 1, as float32."""
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


if __name__ == "__main__":
    main()
