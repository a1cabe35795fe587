"""Peak memory of the stages that pass over the corpus, at two sizes of corpus.

Each stage runs as users run it, as a process of its own, in a temporary project of random words with tiny random
models; what it wrote is checked for completeness. `peak` is the kernel's own account of resident memory (ru_maxrss),
pages of mapped files included; `anonymous` leaves those out, which the kernel can drop at will. Requirement: from the
smaller corpus to the larger, `peak` grows by less than 10%.

    python benchmarks/memory.py
"""

import os
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import harness

# Nothing heavy is imported before the stages have run: a child's account begins with what its parent held.
STAGES = {
    "cache_passages": ["cache_passages.py", "dual_encoder"],
    "build_graph": ["build_graph.py", "gnn_encoder"],
    "embed_edges": ["embed_edges.py", "gnn_encoder"],
    "encode_corpus": ["encode_corpus.py", "gnn_encoder"],
    "generate_queries": ["generate_queries.py"],
    "encode_views": ["encode_views.py", "dual_cross"],
}
FIELDS = {"RssAnon": "anonymous_mib", "RssFile": "mapped_mib"}
ALLOWED_GROWTH = 0.10


@dataclass
class Use:
    """What one process needed."""

    peak_mib: float
    anonymous_mib: float
    mapped_mib: float
    seconds: float


def run_stage(command: list[str], folder: Path) -> Use:
    """Run a process to its end and take its account."""
    start = time.perf_counter()
    log = folder / "stage.log"
    with log.open("w") as file:
        process = subprocess.Popen(command, cwd=folder, stdout=file, stderr=file)
    peaks = dict.fromkeys(FIELDS.values(), 0.0)
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(process.pid, peaks, ended))
    watcher.start()
    _, status, usage = os.wait4(process.pid, 0)
    taken = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    ended.set()
    watcher.join()
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{log.read_text()[-2000:]}")
    return Use(peak_mib=usage.ru_maxrss / 1024, seconds=taken, **peaks)


def _watch(pid: int, peaks: dict[str, float], ended: threading.Event) -> None:
    while not ended.wait(0.02):
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            return
        for line in lines:
            name, _, value = line.partition(":")
            if name in FIELDS:
                peaks[FIELDS[name]] = max(peaks[FIELDS[name]], int(value.split()[0]) / 1024)


def measure(folder: Path, n_passages: int, stages: list[str]) -> dict[str, Use]:
    """All stages over one synthetic project."""
    harness.note(f"{n_passages} passages: making the project")
    synthetic = [sys.executable, str(Path(__file__).with_name("synthetic.py")), str(folder), str(n_passages)]
    subprocess.run(synthetic, check=True)
    found = {}
    for name in stages:
        script, *arguments = STAGES[name]
        found[name] = run_stage([sys.executable, str(harness.ROOT / "stages" / script), *arguments], folder)
        subprocess.run([*synthetic, "--verify", name], check=True)
        use = found[name]
        harness.note(f"  {name}: peak {use.peak_mib:.0f} MiB, {use.seconds:.0f} s")
    return found


def main() -> None:
    parser = harness.parser("memory", __doc__)
    parser.add_argument("--sizes", type=int, nargs=2, metavar="PASSAGES", help="default: 100000 1000000")
    options = parser.parse_args()
    sizes = options.sizes or ([10_000, 40_000] if options.quick else [100_000, 1_000_000])
    uses = []
    for size in sizes:
        with TemporaryDirectory(prefix="gnn-encoder-memory-") as name:
            uses.append(measure(Path(name), size, list(STAGES)))
    rows, stages, growths = [], {}, {}
    for name in STAGES:
        small, large = (use[name] for use in uses)
        growths[name] = large.peak_mib / small.peak_mib - 1
        rows.append([name, *_cells(small), *_cells(large), f"{growths[name]:+.1%}"])
        stages[name] = {"uses": [asdict(small), asdict(large)], "growth": growths[name]}
    columns = [f"{what} {size:,}" for size in sizes for what in ("peak", "anonymous", "mapped")]
    print("MiB")
    harness.print_table(["stage", *columns, "growth of peak"], rows)
    met = max(growths.values()) < ALLOWED_GROWTH
    verdict = harness.requirement("peak grows by less than 10%", met, options.quick)
    harness.finish("memory", options, {"sizes": sizes, "stages": stages, "verdict": verdict})


def _cells(use: Use) -> list[object]:
    return [f"{value:.0f}" for value in (use.peak_mib, use.anonymous_mib, use.mapped_mib)]


if __name__ == "__main__":
    main()
