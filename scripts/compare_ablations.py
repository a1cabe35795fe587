"""Compare the finished ablations of scripts/queue_ablations.py: means over seeds, and paired differences from `full`.

    python scripts/compare_ablations.py --seeds 13 14 15           # those of configs/ablations.txt that have run
    python scripts/compare_ablations.py full no_gate --seeds 13

The values of every query come from DVC's cache, where the experiments left them.
"""

import argparse
from pathlib import Path

from queue_ablations import ABLATIONS

from gnn_encoder.base.errors import report_errors
from gnn_encoder.evaluate.tables import titled
from gnn_encoder.evaluate.trials import FULL, ablation_tables, read_ablations, read_experiments
from gnn_encoder.pipeline.params import load_params


def main() -> None:
    """Print a table a split; say which experiments are left out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="lines of the file; none: all")
    parser.add_argument("--seeds", nargs="+", type=int, default=[13], metavar="SEED")
    parser.add_argument("--file", type=Path, default=ABLATIONS)
    parser.add_argument("--measure", help="default: evaluate.significance")
    given = parser.parse_args()
    names = dict.fromkeys([FULL, *read_ablations(given.file, given.names)])
    values, missing = read_experiments(names, given.seeds)
    for table in ablation_tables(values, given.measure or load_params().evaluate.significance):
        print(f"{titled(table)}\n")
    if missing:
        print(f"left out, since DVC has no values of them: {', '.join(missing)}")


if __name__ == "__main__":
    with report_errors():
        main()
