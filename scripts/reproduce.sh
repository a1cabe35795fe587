#!/usr/bin/env bash
# Makes the environment, runs what is out of date of the GNN-encoder branch, and prints its results: the main job.
#
#   scripts/reproduce.sh [cpu|gpu] [dvc repro's arguments...]     # such as pipelines/pair/dvc.yaml or --all-pipelines
#
# Killed in any way, it goes on where it was when it is run again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
accelerator=()
case ${1:-} in cpu | gpu) accelerator=("$1") && shift ;; esac
bash scripts/environment.sh ${accelerator[@]+"${accelerator[@]}"}
export GNN_ENCODER_PYTHON=$PWD/.venv/bin/python
"$GNN_ENCODER_PYTHON" scripts/heal.py
printf 'reproduce: dvc repro%s\n' "${*:+ $*}"
"$GNN_ENCODER_PYTHON" -m dvc repro "$@"
.venv/bin/gnn-encoder results $([ $# -eq 0 ] || echo all)
printf 'More: plots/, `gnn-encoder report`. To compare later runs with this: git add params.yaml dvc.lock metrics && git commit\n'
