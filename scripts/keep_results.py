"""Keep what tells of a long run: its parameters, dvc.lock, measures, figures, and the time of each stage.

    python scripts/keep_results.py results/insuranceqa

Run it in the clone that ran the experiment and nothing else, after any branch. It writes the folder anew, with a
README.md in which no number is typed in. The artifacts stay where they are.
"""

import argparse
import shutil
import subprocess
from pathlib import Path

from check_results import FOLDER
from update_docs import provenance, quality

from gnn_encoder.base.errors import UserError, report_errors
from gnn_encoder.base.files import replacing
from gnn_encoder.pipeline.experiment import MADE
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.presenting.provenance import locked, stages_table
from gnn_encoder.presenting.tables import titled

RESULTS = Path("results")
KEPT = {"metrics": "*.json", "plots": "*.png"}  # of each folder


def main() -> None:
    """Write the folder beside its place, and put it there whole."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="results/NAME")
    given = parser.parse_args()
    if given.folder.parent.resolve() != RESULTS.resolve():
        raise UserError(f"{given.folder}: must be {RESULTS}/NAME, which is replaced; name one there")
    data = load_params().data.path
    params, lock = (Path(name).read_text(encoding="utf-8") for name in ("params.yaml", "dvc.lock"))
    if data is not None:  # nobody else has this folder
        params, lock = (text.replace(str(data), FOLDER) for text in (params, lock))
    commands = [f"`{line.removeprefix(MADE)}`" for line in params.splitlines() if line.startswith(MADE)]
    how = ", ".join([*(commands or ["the default `params.yaml`"]), "`bash scripts/reproduce.sh`"])
    again = f"`python scripts/check_results.py {given.folder}{'' if data is None else f' --path {FOLDER}'}`"
    code = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout
    made = f"Made by {how}, with the code of commit {code.strip()}"
    told = f"# {given.folder.name}\n\n{made}. {again} runs it again and compares the scores.\n\n"
    with replacing(given.folder) as beside:
        text = f"{told}{quality(provenance())}\n\n{titled(stages_table())}\n"
        for name, content in (("README.md", text), ("params.yaml", params), ("dvc.lock", lock)):
            (beside / name).write_text(content, encoding="utf-8")
        made_here = {out for _, outs in locked() for out in outs}  # others are committed, of another experiment
        for path in (path for top, name in KEPT.items() for path in Path(top).rglob(name)):
            if made_here & {path, *path.parents}:
                (beside / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, beside / path)


if __name__ == "__main__":
    with report_errors():
        main()
