"""Queue the papers' ablations as experiments of DVC, one for each line of configs/ablations.txt and seed.

python scripts/queue_ablations.py --seeds 13 14 15             # all lines
python scripts/queue_ablations.py full no_gate --seeds 13      # some of them; then: dvc queue start
"""

import argparse
import subprocess
from pathlib import Path

from gnn_encoder.base.errors import UserError, report_errors
from gnn_encoder.evaluate.judge import read_ablations


def parser(description: str | None) -> argparse.ArgumentParser:
    """What both queueing and comparing take."""
    found = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("names", nargs="*", metavar="NAME", help="lines of the file; none: all")
    found.add_argument("--seeds", nargs="+", type=int, default=[13], metavar="SEED")
    found.add_argument("--file", type=Path, default=Path("configs/ablations.txt"))
    return found


if __name__ == "__main__":
    with report_errors():
        given = parser(__doc__).parse_args()
        for seed in given.seeds:  # of one seed all at a time: DVC makes once what they share
            for name, settings in read_ablations(given.file, given.names).items():
                changes = [f"--set-param={setting}" for setting in (*settings, f"seed={seed}")]
                command = ["dvc", "exp", "run", "--queue", f"--name={name}-{seed}", *changes]
                if subprocess.run(command, check=False).returncode:
                    raise UserError(f"`{' '.join(command)}` failed; what it says stands above")
