"""Memory and speed of stage prepare on a synthetic MS MARCO collection of 10 million short passages.

The stage runs as users run it, as a process of its own with one thread, on collection.tsv, queries and qrels of random
words in a temporary folder that needs 2.5 GB; its tables are counted afterwards. `peak` is the kernel's account of
resident memory (ru_maxrss), pages of mapped files included. Requirement: peak below 2 GiB.

    python benchmarks/prepare_corpus.py
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import harness
import yaml
from memory import run_stage

# Nothing heavy is imported before the stage has run: a child's account begins with what its parent held.
PASSAGES = 10_000_000
QUERIES = {"train": 500_000, "dev.small": 7_000}
ALLOWED_MIB = 2048


def write_source(folder: Path, n_passages: int) -> None:
    """A folder in MS MARCO's format; each query has one relevant passage."""
    folder.mkdir(parents=True)
    _write(folder / "collection.tsv", _rows(n_passages, words=10))
    for split, most in QUERIES.items():
        n_queries = min(most, n_passages // 10)
        _write(folder / f"queries.{split}.tsv", _rows(n_queries, words=6))
        qrels = (f"{row}\t0\t{row * 7919 % n_passages}\t1\n" for row in range(n_queries))
        _write(folder / f"qrels.{split}.tsv", qrels)


def _rows(count: int, words: int) -> Iterator[str]:
    """Row number and text; six digits of a linear congruential generator (Park and Miller 1988) make a word."""
    state = 1
    for row in range(count):
        text = []
        for _ in range(words):
            state = state * 48_271 % 0x7FFF_FFFF
            text.append(f"w{state % 1_000_000}")
        yield f"{row}\t{' '.join(text)}\n"


def _write(path: Path, rows: Iterator[str]) -> None:
    with path.open("w", encoding="utf-8", buffering=1 << 20) as file:
        file.writelines(rows)


def write_project(folder: Path, n_passages: int) -> None:
    """params.yaml and the source it names."""
    write_source(folder / "source", n_passages)
    params = yaml.safe_load((harness.ROOT / "params.yaml").read_text(encoding="utf-8"))
    params["data"] = {"source": "msmarco", "path": "source", "train_queries": None, "dev_fraction": 0.01}
    (folder / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")


def check(folder: Path, n_passages: int) -> None:
    """Stop unless every passage and query was written."""
    code = "import sys, pyarrow.parquet as pq; print(*(pq.read_metadata(name).num_rows for name in sys.argv[1:]))"
    tables = ["passages", "queries/train", "queries/dev", "queries/test"]
    paths = [str(folder / "data" / "prepared" / f"{name}.parquet") for name in tables]
    counts = subprocess.run([sys.executable, "-c", code, *paths], capture_output=True, text=True, check=True).stdout
    passages, train, dev, test = map(int, counts.split())
    expected = [min(most, n_passages // 10) for most in QUERIES.values()]
    if (passages, [train + dev, test]) != (n_passages, expected):
        raise SystemExit(
            f"prepare wrote {counts.strip()} rows of {', '.join(tables)}: not all of the work was measured"
        )


def main() -> None:
    parser = harness.parser("prepare_corpus", __doc__)
    parser.add_argument("--passages", type=int, help=f"default: {PASSAGES:,}")
    options = parser.parse_args()
    n_passages = options.passages or (100_000 if options.quick else PASSAGES)
    for name in ("OMP_NUM_THREADS", "POLARS_MAX_THREADS", "RAYON_NUM_THREADS"):
        os.environ[name] = "1"
    with TemporaryDirectory(prefix="gnn-encoder-prepare-") as name:
        folder = Path(name)
        harness.note(f"{n_passages:,} passages: making the source")
        write_project(folder, n_passages)
        size = sum(path.stat().st_size for path in (folder / "source").iterdir())
        use = run_stage([sys.executable, str(harness.ROOT / "stages" / "prepare.py")], folder)
        check(folder, n_passages)
    rate = n_passages / use.seconds
    cells = [f"{use.peak_mib:.0f}", f"{use.anonymous_mib:.0f}", f"{use.seconds:.0f}", f"{rate:,.0f}"]
    harness.print_table(["passages", "peak MiB", "anonymous MiB", "s", "passages/s"], [[f"{n_passages:,}", *cells]])
    verdict = harness.requirement("peak below 2 GiB", use.peak_mib < ALLOWED_MIB, options.quick)
    record = {"passages": n_passages, "bytes": size, **asdict(use), "passages_per_second": rate, "verdict": verdict}
    harness.finish("prepare_corpus", options, record)


if __name__ == "__main__":
    main()
