#!/usr/bin/env bash
# The main job: makes the environment, runs every stage of the GNN-encoder branch that is out of date, prints the results.
#
#   scripts/reproduce.sh [cpu|gpu] [dvc repro's arguments...]
#
# With arguments it runs what they name: evaluate@pair, evaluate@dual_cross, ..., or all branches with evaluate compare.
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
# Stages start faster from a process that has loaded what they import.
server=$(mktemp -d)
export GNN_ENCODER_SERVER=$server/socket
scripts/python scripts/stage_server.py "$server" $$ </dev/null >/dev/null &
trap 'kill $! 2>/dev/null || true; rm -rf "$server"' EXIT
.venv/bin/python scripts/run_dvc.py repro "$@"

for target in "$@"; do
    case $target in
        evaluate@*) .venv/bin/gnn-encoder results "${target#evaluate@}" ;;
        compare) .venv/bin/gnn-encoder results all ;;
    esac
done
printf 'More: metrics/, plots/, `dvc metrics show`, `dvc exp show`\n'
