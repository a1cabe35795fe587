#!/usr/bin/env bash
# Makes .venv with the package and what it needs, or finds that it is there already.
#
#   scripts/environment.sh [cpu|gpu] [EXTRA...]      # extras: test, serve, ir_datasets
#
# Run it again after a change of pyproject.toml or constraints.txt, an error or a kill: it does what is missing.
# Without cpu or gpu it keeps what .venv was made for (cpu at first).
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/.."

env=.venv python=.venv/bin/python
stamps=$env/.installed # one file an extra: what it was installed for
unfinished=$env/.unfinished

say() { printf 'environment: %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }
requirement() { sed -n "s/.*\"\($1[=>][^\"]*\)\".*/\1/p" pyproject.toml; } # so that no version stands in two places
pip() { "$python" -m pip "$@"; }
# All versions as they were tested. Python compiles what it imports, a fifth; compiling all takes pip a minute.
install() { pip install --no-compile --constraint constraints.txt "$@"; }

git rev-parse --git-dir >/dev/null 2>&1 || # before minutes of installing: DVC works in a git repository alone
    fail "$PWD: no git repository, which DVC needs (a downloaded archive is none, or git is missing); install git if need be, run \`git init\` here, then this again"

exec 9>>scripts/environment.sh # the lock is on this file; a run that is killed leaves it to its pip, which may go on
if command -v flock >/dev/null && ! flock -n 9; then # macOS has no flock
    say "waiting for another one that installs"
    flock 9
fi

accelerator=cpu other=gpu
[ ! -e "$stamps/gpu" ] || accelerator=gpu
case ${1:-} in cpu | gpu) accelerator=$1 && shift ;; esac
[ "$accelerator" = cpu ] || other=cpu
key="$(cat pyproject.toml constraints.txt | cksum) $PWD"
missing=()
for extra in "$accelerator" "$@"; do
    grep -q "^$extra = \[" pyproject.toml || fail "$extra: no such extra in pyproject.toml; it has" $(sed -n '/^\[project.optional/,/^\[project.scripts/s/^\([a-z_]*\) = \[.*/\1/p' pyproject.toml)
    [ "$(cat "$stamps/$extra" 2>/dev/null)" = "$key" ] || missing+=("$extra")
done
if [ ${#missing[@]} -eq 0 ] && [ ! -e "$unfinished" ] && "$python" -c '' 2>/dev/null; then
    say "$env is up to date ($accelerator${*:+ $*})"
    exit 0
fi

if [ -e "$unfinished" ] || { [ -e "$env/bin/activate" ] && ! grep -qF "$PWD/$env" "$env/bin/activate"; }; then
    say "an earlier run was killed while it installed, or $env was made in another folder; starting it anew"
    rm -rf "$env"
fi
if ! "$python" -m pip --version >/dev/null 2>&1; then
    for base in python3.11 python3.12 python3.13 python3 python ''; do
        "$base" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && break
    done
    [ -n "$base" ] || fail "no Python 3.11 or newer with its venv module on PATH (Debian, Ubuntu: python3, python3-venv)"
    say "making $env with $("$base" --version)"
    "$base" -m venv --clear "$env"
fi

# Packages are half-written only if we are killed: an error of pip's leaves them whole and the mark goes.
touch "$unfinished"
trap 'rm -f "$unfinished"' EXIT
trap 'trap - EXIT; exit 130' INT TERM

if pip show --quiet "faiss-$other" 2>/dev/null; then # both own the import name: one must go before the other comes
    say "removing faiss-$other"
    rm -f "$stamps/$other" "$stamps/$accelerator"
    pip uninstall --quiet --yes "faiss-$other" "faiss-$accelerator"
fi
install --quiet --upgrade pip # the one that Python brings may take twice as long
say "installing PyTorch"
install "$(requirement torch)"
if [ "$accelerator" = gpu ]; then
    say "building torch-scatter (about 5 minutes)"
    install "setuptools>=77" wheel
    # Without an nvcc that fits PyTorch's CUDA its kernels cannot be built; PyTorch's own do their work on the GPU.
    install --no-build-isolation "$(requirement torch-scatter)" ||
        { say "no CUDA build of torch-scatter here; building it for the CPU alone" &&
            FORCE_ONLY_CPU=1 install --no-build-isolation "$(requirement torch-scatter)"; }
fi
extras=$(IFS=, && echo "$accelerator${*:+,$*}")
say "installing gnn-encoder[$extras]"
install --editable ".[$extras]"

mkdir -p "$stamps"
for extra in "$accelerator" "$@"; do printf '%s\n' "$key" >"$stamps/$extra"; done
say "$env is ready ($accelerator${*:+ $*})"
