#!/usr/bin/env bash
# The main job: makes the environment, runs every stage of the GNN-encoder branch that is out of date, prints the results.
#
#   scripts/reproduce.sh [cpu|gpu] [dvc repro's arguments...]
#
# With arguments it runs what they name: evaluate@pair, evaluate@dual_cross, ..., or all branches with compare.
# Killed in any way, it goes on where it was when it is run again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

accelerator=()
case ${1:-} in cpu | gpu) accelerator=("$1") && shift ;; esac
[ $# -gt 0 ] || set -- evaluate@gnn_encoder
bash scripts/environment.sh ${accelerator[@]+"${accelerator[@]}"}

export GNN_ENCODER_PYTHON=$PWD/.venv/bin/python
"$GNN_ENCODER_PYTHON" scripts/heal.py
printf 'reproduce: dvc repro %s\n' "$*"
.venv/bin/python -m dvc repro "$@"

"$GNN_ENCODER_PYTHON" - "$@" <<'PYTHON'
import json
import sys
from pathlib import Path

# What was asked for: other metrics may be those that git brought.
branches = [target.removeprefix("evaluate@") for target in sys.argv[1:] if target.startswith("evaluate@")]
files = [Path("metrics", branch, "test.json") for branch in branches] or [Path("metrics/test.json")]
results = {}
for file in filter(Path.is_file, files):
    results |= json.loads(file.read_text(encoding="utf-8"))
measures = list(dict.fromkeys(measure for values in results.values() for measure in values))
width = max(map(len, results), default=0)
if results:
    print("\nTest questions, in points\n" + " " * width + "".join(f"{measure:>11}" for measure in measures))
for system, values in results.items():
    print(f"{system:{width}}" + "".join(f"{100 * values[m]:11.2f}" if m in values else f"{'':11}" for m in measures))
if results:
    print("More: metrics/, plots/, `dvc metrics show`, `dvc exp show`")
PYTHON
