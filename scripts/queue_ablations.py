"""Queue the papers' ablations as experiments of DVC, one for each line of configs/ablations.txt and seed.

python scripts/queue_ablations.py --seeds 13 14 15             # all lines
python scripts/queue_ablations.py full no_gate --seeds 13      # some of them; then: dvc queue start
"""

import argparse
import subprocess
from pathlib import Path

from gnn_encoder.base.errors import UserError, report_errors
from gnn_encoder.evaluate.trials import queue_command, read_ablations

ABLATIONS = Path("configs/ablations.txt")


def main() -> None:
    """Queue them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="lines of the file; none: all")
    parser.add_argument("--seeds", nargs="+", type=int, default=[13], metavar="SEED")
    parser.add_argument("--file", type=Path, default=ABLATIONS)
    given = parser.parse_args()
    for seed in given.seeds:  # of one seed all at a time: DVC makes once what they share
        for name, settings in read_ablations(given.file, given.names).items():
            command = queue_command(name, settings, seed)
            if subprocess.run(command, check=False).returncode:
                raise UserError(f"`{' '.join(command)}` failed; what it says stands above")


if __name__ == "__main__":
    with report_errors():
        main()
