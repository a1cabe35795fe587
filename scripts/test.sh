#!/usr/bin/env bash
# Makes the environment and runs every check: linter, formatting, types, tests.
#
#   scripts/test.sh [pytest's arguments...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash scripts/environment.sh test

unset PYTHONDONTWRITEBYTECODE # without bytecode every test process takes twice as long to load PyTorch
failed=()
check() {
    printf '\n== %s\n' "$*"
    .venv/bin/python -m "$@" || failed+=("$*")
}
check ruff check .
check ruff format --check .
# Types are checked on the way: the tests leave a core idle now and then.
.venv/bin/python -m mypy >.venv/types.txt 2>&1 &
check pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder "$@"
wait $! || failed+=(mypy)
printf '\n== mypy\n' && cat .venv/types.txt
[ ${#failed[@]} -eq 0 ] || { printf 'failed: %s\n' "${failed[@]}" >&2 && exit 1; }
