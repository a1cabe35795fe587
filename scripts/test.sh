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
check mypy
# A file's tests stay together, in the order of tests/conftest.py: its fixtures are made once.
check pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder "$@"
[ ${#failed[@]} -eq 0 ] || { printf 'failed: %s\n' "${failed[@]}" >&2 && exit 1; }
