"""What the order of an epoch costs: making it, the items of a step, and memory, at three numbers of examples.

The order is made once an epoch. Requirement: the items of a step take less than a millisecond at 100,000,000 examples,
and the order takes four bytes an example.

    python benchmarks/epochs.py
"""

import time

import harness
import psutil

from gnn_encoder.training.contrastive import Batches

SIZES = (1_000_000, 10_000_000, 100_000_000)
BATCH, STEPS = 2_048, 400


def measure(examples: int) -> dict[str, float]:
    """One epoch's order, and some steps spread over it, in seconds of one core."""
    process = psutil.Process()
    before, start = process.memory_info().rss, time.process_time()
    batches = Batches(examples, 1.0, BATCH, seed=13)
    batches.items(0)
    made = time.process_time()
    steps = range(0, len(batches), max(1, len(batches) // STEPS))
    for step in steps:
        batches.items(step)
    each = (time.process_time() - made) / len(steps)
    held = process.memory_info().rss - before
    return {"examples": examples, "order_seconds": made - start, "step_ms": 1e3 * each, "bytes_each": held / examples}


def main() -> None:
    options = harness.parser("epochs", __doc__).parse_args()
    rows = [measure(size // 100 if options.quick else size) for size in SIZES]
    header = ["examples", "order, s", "a step's items, ms", "bytes an example"]
    shown = [[f"{row['examples']:,}", *(f"{row[name]:.3f}" for name in list(row)[1:])] for row in rows]
    harness.print_table(header, shown)
    met = rows[-1]["step_ms"] < 1 and rows[-1]["bytes_each"] < 4.4
    verdict = harness.requirement("a step's items below 1 ms at 100,000,000 examples, 4 bytes each", met, options.quick)
    harness.finish("epochs", options, {"rows": rows, "verdict": verdict})


if __name__ == "__main__":
    main()
