#!/usr/bin/env bash
# Makes the environment and runs every check: linter, formatting, types, tests. Prints what it does and what it skips.
#
#   scripts/test.sh [cpu|gpu] [pytest's arguments...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

accelerator=()
case ${1:-} in cpu | gpu) accelerator=("$1") && shift ;; esac
bash scripts/environment.sh ${accelerator[@]+"${accelerator[@]}"} test

unset PYTHONDONTWRITEBYTECODE # without bytecode every test process takes twice as long to load PyTorch
failed=()
check() {
    printf '\n== %s\n' "$*"
    .venv/bin/python -m "$@" || failed+=("$*")
}
check ruff check .
check ruff format --check .
# Types are checked on the way: the tests leave a core idle now and then.
types=$(mktemp)
.venv/bin/python -m mypy >"$types" 2>&1 &
mypy=$!
trap 'kill $mypy 2>/dev/null || true; rm -f "$types"' EXIT
# A file's tests stay together, in the order of tests/conftest.py: its fixtures are made once.
check pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder "$@"
printf '\n== mypy\n'
wait $mypy || failed+=(mypy)
cat "$types"

[ ${#failed[@]} -eq 0 ] || { printf 'failed: %s\n' "${failed[@]}" >&2 && exit 1; }
