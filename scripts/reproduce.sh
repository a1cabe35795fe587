#!/usr/bin/env bash
# The main job: makes the environment, runs every stage of dvc.yaml that is out of date, prints the results.
#
#   scripts/reproduce.sh [cpu|gpu] [dvc repro's arguments...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

accelerator=()
case ${1:-} in cpu | gpu) accelerator=("$1") && shift ;; esac
bash scripts/environment.sh ${accelerator[@]+"${accelerator[@]}"}

export GNN_ENCODER_PYTHON=$PWD/.venv/bin/python
printf 'reproduce: dvc repro %s\n' "$*"
.venv/bin/python -m dvc repro "$@"

if [ -e metrics/test.json ]; then # a run may have been of some stages only
    "$GNN_ENCODER_PYTHON" - <<'PYTHON'
import json

with open("metrics/test.json", encoding="utf-8") as file:
    results = json.load(file)
measures = list(dict.fromkeys(measure for values in results.values() for measure in values))
print("\nTest questions, in points\n" + " " * 14 + "".join(f"{measure:>11}" for measure in measures))
for system, values in results.items():
    print(f"{system:14}" + "".join(f"{100 * values[m]:11.2f}" if m in values else f"{'':11}" for m in measures))
print("More: metrics/significance.json, plots/, `dvc metrics show`, `dvc exp show`")
PYTHON
fi
