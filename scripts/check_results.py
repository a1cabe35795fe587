"""Run a kept experiment again, and say whether its scores come out as they were kept.

    python scripts/check_results.py .                                        # the default experiment
    python scripts/check_results.py results/bible --path /path/to/bible      # one on data of your own folder

It runs the main branch in a clone beside this one, with an environment of its own (2 GB); killed, it goes on there when
it is run again. On the same kind of processor the scores are the same. Others round otherwise: then the largest
difference is told, and more than --tolerance points are an error.
"""

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path

from gnn_encoder.base.errors import UserError, report_errors
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.pipeline.project import MAIN, title_of
from gnn_encoder.presenting.formats import points
from gnn_encoder.presenting.tables import Table, titled

FOLDER = "FOLDER"  # stands in a kept params.yaml for the folder of the data


def run_again(kept: Path, clone: Path, path: Path | None) -> None:
    """Reproduce the main branch of a kept experiment in a clone of this repository."""
    text = (kept / "params.yaml").read_text(encoding="utf-8")
    for split in project.JUDGED:
        if not (scores := kept / project.METRICS / MAIN / f"{split}.json").is_file():
            raise UserError(f"{scores}: no such file: no scores of the main branch are kept here that could be checked")
    own = load_params(kept / "params.yaml").data.path == FOLDER
    if own != (path is not None):
        rule = "is of data in a folder of your own; name it with --path" if path is None else "has no folder for --path"
        raise UserError(f"{kept}/params.yaml {rule}")
    if path is not None:
        if not path.is_dir():
            raise UserError(f"--path is {path}: no such folder; correct it")
        text = text.replace(f"path: {FOLDER}", f"path: {json.dumps(str(path.resolve()))}")
    print(f"running it in {clone}, with an environment of its own: 2 GB, and about the minutes of {kept}/README.md")
    if not clone.exists():
        subprocess.run(["git", "clone", "--quiet", ".", str(clone)], check=True)
    (clone / "params.yaml").write_text(text, encoding="utf-8")
    subprocess.run(["bash", "scripts/reproduce.sh"], cwd=clone, check=True)


def compared(kept: Path, again: Path, measure: str) -> tuple[Table, float]:
    """The scores of both folders of metrics, system by system, and the largest difference in points."""
    rows, most = list[list[str]](), 0.0
    for split in project.JUDGED:
        first, second = (
            json.loads((one / MAIN / f"{split}.json").read_text(encoding="utf-8")) for one in (kept, again)
        )
        for system, means in first.items():
            now = second.get(system, {}).get(measure, -math.inf)  # one that is missing is as far off as can be
            difference = round(100 * (now - means[measure]), 9)  # sums of the same values may be rounded otherwise
            most = max(most, abs(difference))
            told = f"{difference:+.2f}" if difference else "the same"
            rows.append([split, title_of(system), points(means[measure]), points(now), told])
    return Table(title="", columns=["Split", "System", f"kept {measure}", "now", "difference"], rows=rows), most


def main() -> None:
    """Run, compare, and end with 1 if a score differs by more than is allowed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kept", type=Path, help="a folder with params.yaml and metrics/")
    parser.add_argument("--path", type=Path, help="the data's folder, where params.yaml says FOLDER")
    parser.add_argument("--clone", type=Path, help="where it runs; default: beside this clone")
    parser.add_argument("--tolerance", type=float, default=1.0, help="points that a score may differ by (%(default)s)")
    given = parser.parse_args()
    clone = given.clone or Path.cwd().parent / f"{Path.cwd().name}-{given.kept.resolve().name}-again"
    run_again(given.kept, clone, given.path)
    measure = load_params(clone / "params.yaml").evaluate.significance
    table, most = compared(given.kept / project.METRICS, clone / project.METRICS, measure)
    print(titled(table))
    verdict = "the same" if most == 0 else f"different by at most {most:.2f} points"
    print(f"{given.kept}: {verdict}")
    sys.exit(0 if most <= given.tolerance else 1)


if __name__ == "__main__":
    with report_errors():
        main()
