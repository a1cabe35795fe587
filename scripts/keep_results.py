"""Keep what tells of a long run: its parameters, dvc.lock, measures, figures, and the time of each stage.

    python scripts/keep_results.py results/insuranceqa --date 2026-01-31

Run it in the clone that ran the experiment and nothing else, after any branch. It writes the folder anew, with a
README.md in which no number is typed in. The artifacts stay where they are.
"""

import argparse
import shutil
from pathlib import Path

import yaml
from check_results import FOLDER
from update_docs import provenance, quality

from gnn_encoder.core.errors import UserError, report_errors
from gnn_encoder.core.storage.atomic import replacing
from gnn_encoder.pipeline.experiment import MADE
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.presenting.provenance import stages_table
from gnn_encoder.presenting.tables import titled

RESULTS = Path("results")
KEPT = {"metrics": "*.json", "plots": "*.png"}  # of each folder


def main() -> None:
    """Write the folder beside its place, and put it there whole."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="results/NAME")
    parser.add_argument("--date", required=True, help="the day")
    given = parser.parse_args()
    if given.folder.parent.resolve() != RESULTS.resolve():
        raise UserError(f"{given.folder}: must be {RESULTS}/NAME, which is replaced; name one there")
    params, data = Path("params.yaml").read_text(encoding="utf-8"), load_params().data.path
    params = params if data is None else params.replace(str(data), FOLDER)  # nobody else has this folder
    made = [f"`{line.removeprefix(MADE)}`" for line in params.splitlines() if line.startswith(MADE)]
    how = ", ".join([*(made or ["the default `params.yaml`"]), "`bash scripts/reproduce.sh`"])
    again = f"`python scripts/check_results.py {given.folder}{f' --path {FOLDER}' if FOLDER in params else ''}`"
    told = f"# {given.folder.name}\n\nMade by {how}. {again} runs it again and compares the scores.\n\n"
    with replacing(given.folder) as beside:
        text = f"{told}{quality(provenance(given.date))}\n\n{titled(stages_table())}\n"
        lock = Path("dvc.lock").read_text(encoding="utf-8").replace(str(data), FOLDER)
        for name, content in (("README.md", text), ("params.yaml", params), ("dvc.lock", lock)):
            (beside / name).write_text(content, encoding="utf-8")
        made_here = outs()
        for path in (path for top, name in KEPT.items() for path in Path(top).rglob(name)):
            if made_here & {path, *path.parents}:
                (beside / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, beside / path)


def outs() -> set[Path]:
    """What the stages that ran here have written. Other measures are the committed ones, of another experiment."""
    found = set()
    for lock in (Path("dvc.lock"), *Path("pipelines").glob("*/dvc.lock")):
        if lock.is_file():
            for stage in yaml.safe_load(lock.read_text(encoding="utf-8"))["stages"].values():
                paths = (lock.parent / out["path"] for out in stage.get("outs", []))
                found |= {path.resolve().relative_to(Path.cwd()) for path in paths}
    return found


if __name__ == "__main__":
    with report_errors():
        main()
