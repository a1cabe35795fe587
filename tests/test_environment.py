"""scripts/environment.sh: what it refuses, and that of two that install one waits."""

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .project import ROOT


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A git repository with scripts/environment.sh, whose .venv is up to date for that script."""
    for folder in ("scripts", ".venv/bin", ".venv/.installed"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("scripts/environment.sh", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    key = subprocess.check_output("cat pyproject.toml constraints.txt | cksum", shell=True, cwd=tmp_path, text=True)
    (tmp_path / ".venv/.installed/cpu").write_text(f"{key.strip()} {tmp_path.resolve()}\n")
    return tmp_path


@pytest.mark.skipif(shutil.which("flock") is None, reason="no flock")
def test_of_two_that_install_the_second_waits_and_finds_all_there(installed: Path) -> None:
    script, unfinished = installed / "scripts" / "environment.sh", installed / ".venv" / ".unfinished"
    unfinished.touch()
    with script.open() as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        with subprocess.Popen(["bash", script], stdout=subprocess.PIPE, text=True) as second:
            assert second.stdout is not None
            assert second.stdout.readline() == "environment: waiting for another one that installs\n"
            unfinished.unlink()
            fcntl.flock(first, fcntl.LOCK_UN)
            assert second.stdout.read() == "environment: .venv is up to date (cpu)\n"
    assert second.returncode == 0


def test_a_folder_without_git_is_refused_before_anything_is_installed(installed: Path) -> None:
    shutil.rmtree(installed / ".git")
    told = subprocess.run(["bash", installed / "scripts" / "environment.sh"], capture_output=True, text=True)
    assert told.returncode == 1 and told.stdout == ""
    assert told.stderr.startswith(f"error: {installed}: no git repository, which DVC needs (a downloaded archive is")
    assert told.stderr.endswith("run `git init` here, then this again\n") and told.stderr.count("\n") == 1
