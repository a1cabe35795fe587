"""Keep what tells of a long run: its parameters, dvc.lock, measures, pictures, and the minutes of its stages.

    python scripts/keep_results.py results/insuranceqa --date 2026-01-31

Run it in the clone that ran the experiment and nothing else, after any branch: it takes those that have been evaluated.
The artifacts stay where they are. No number is typed in.

    README.md      every system and measure, the claim, the machine, minutes of each stage
    params.yaml    the experiment
    dvc.lock       what it read and made, with hashes
    metrics/       as at the top of the repository
    plots/         the pictures
"""

import argparse
import json
import shutil
from pathlib import Path

from update_readme import lengths, machine, measured, quality, training_queries

from gnn_encoder.core.errors import UserError, report_errors
from gnn_encoder.core.storage.atomic import replacing
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.pipeline.stage import TIMES
from gnn_encoder.presenting.tables import Table, titled

LONG = 60  # seconds
RESULTS = Path("results")
KEPT = {"metrics": "*.json", "plots": "*.png"}  # of each folder


def minutes() -> Table:
    """How long artifacts took, the longest first; nothing is known of those whose stage was killed in between."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8"))["seconds"] for path in TIMES.glob("*.json")}
    long = sorted((-time, name) for name, time in found.items() if time is not None and time >= LONG)
    rows = [[name, f"{-time / 60:.1f}"] for time, name in long]
    rows += [[name, "killed in between"] for name, time in sorted(found.items()) if time is None]
    return Table(title="Minutes of stages that took one or more", columns=["artifact", "minutes"], rows=rows)


def provenance(date: str) -> str:
    """What the results are of."""
    params = load_params()
    return f"{training_queries():,} training queries, seed {params.seed}, on {machine()}; {date}. {lengths(params)}"


def text(experiment: str, told: str) -> str:
    """The folder's README.md."""
    return (
        f"# {experiment}\n\nMade by `gnn-encoder init configs/{experiment}.yaml`, and `bash scripts/reproduce.sh "
        f"evaluate@BRANCH` for each branch that is in `metrics/`.\n\n"
        f"{quality(measured(), told)}\n\n{titled(minutes())}\n"
    )


def keep(folder: Path, told: str) -> None:
    """Write the folder anew, beside its place first.

    Raises:
        UserError: it is not below results/, whose folders hold nothing else.
    """
    if folder.parent.resolve() != RESULTS.resolve():
        raise UserError(f"{folder}: must be {RESULTS}/NAME, which is replaced; name one there")
    with replacing(folder) as beside:
        (beside / "README.md").write_text(text(folder.name, told), encoding="utf-8")
        for name in ("params.yaml", "dvc.lock"):
            shutil.copy(name, beside / name)
        for name, pattern in KEPT.items():
            for path in Path(name).rglob(pattern):
                (beside / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, beside / path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="results/NAME, with NAME that of the experiment in configs/")
    parser.add_argument("--date", required=True, help="the day")
    arguments = parser.parse_args()
    with report_errors():
        keep(arguments.folder, provenance(arguments.date))
