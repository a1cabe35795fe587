#!/usr/bin/env bash
# Makes the environment and runs every check: linter, formatting, types, tests. Prints what it does and what it skips.
#
#   scripts/test.sh [cpu|gpu] [pytest's arguments...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

accelerator=()
case ${1:-} in cpu | gpu) accelerator=("$1") && shift ;; esac
bash scripts/environment.sh ${accelerator[@]+"${accelerator[@]}"} test

failed=()
check() {
    printf '\n== %s\n' "$*"
    .venv/bin/python -m "$@" || failed+=("$*")
}
check ruff check .
check ruff format --check .
check mypy
check pytest --numprocesses 2 --dist loadscope "$@"

[ ${#failed[@]} -eq 0 ] || { printf 'failed: %s\n' "${failed[@]}" >&2 && exit 1; }
