"""The tiny experiment, run once through real DVC in a copy of the project; copies of it; stages in forks (forks.py)."""

import fcntl
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from gnn_encoder.pipeline.experiment import lay_over

from .forks import ask
from .project import DECLARED, set_params

ROOT = Path(__file__).parents[1]
FORKS = Path(__file__).with_name("forks.py")
TINY_PARAMS = ROOT / "tests" / "tiny" / "params.yaml"
MADE = ("data", "metrics", "plots")  # all that stages write
# What a stage finds in the project's folder and in tests: the rest need not be copied for it.
STAGES_READ = {".": (*DECLARED, *MADE, *(".scratch", "stages", "scripts", "tests")), "tests": ("tiny",)}
IDENTITY = {"NAME": "tester", "EMAIL": "tester@example.org"}


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    status: int
    stdout: str
    stderr: str
    calls: int = 0  # of the function that was counted

    @property
    def output(self) -> str:
        return self.stdout + self.stderr

    @property
    def errors(self) -> list[str]:
        """Lines that tell an error or belong to a traceback; logs and warnings are left out."""
        return [line for line in self.stderr.splitlines() if line.startswith(("error:", "Traceback", "  File "))]


@dataclass(frozen=True)
class Project:
    """A copy of the project, with the tiny experiment as its params.yaml."""

    folder: Path
    environment: dict[str, str]

    def run(self, *command: str) -> Ran:
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        return Ran(done.returncode, done.stdout, done.stderr)

    def dvc(self, *arguments: str) -> Ran:
        """In a fork, and so are its stages."""
        return self.fork(["-m", "dvc", *arguments])

    def stage(self, name: str, *arguments: str, **order: Any) -> Ran:
        """Runs `stages/NAME.py`: `project.stage("cache_passages", "dual_encoder", settings=..., kill_after=...)`."""
        return self.fork([f"stages/{name}.py", *arguments], **order)

    def fork(self, *commands: Sequence[str], **order: Any) -> Ran:
        """Run commands one after the other, up to one that fails, in a fork that has their imports done."""
        with tempfile.TemporaryDirectory() as kept:
            stdout, stderr, calls = (Path(kept, name) for name in ("stdout", "stderr", "calls"))
            order |= {"folder": str(self.folder), "commands": commands, "calls": str(calls), "group": os.getpgrp()}
            order["environment"] = self.environment
            with open(os.devnull) as null, stdout.open("wb") as out, stderr.open("wb") as err:
                status = ask(self.environment["FORKS"], order, [file.fileno() for file in (null, out, err)])
            counted = calls.stat().st_size if calls.exists() else 0
            return Ran(status, stdout.read_text(), stderr.read_text(), counted)

    def two_ranks(self, *command: str) -> None:
        """Run a command as both processes of a group, with the environment that torchrun gives; both must end well."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo"}
        group["CUDA_VISIBLE_DEVICES"] = ""

        def run(rank: str) -> Ran:
            own = {"RANK": rank, "LOCAL_RANK": rank}
            return Project(self.folder, self.environment | group | own).fork(command)

        with ThreadPoolExecutor() as pool:
            assert [(ran.status, ran.output[-5000:]) for ran in pool.map(run, "01") if ran.status] == []

    def python(self, *arguments: str) -> Ran:
        return self.run("scripts/python", *arguments)

    def git(self, *arguments: str) -> str:
        done = self.run("git", *arguments)
        assert done.status == 0, done.output
        return done.stdout

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", f"--message={message}")

    def set_params(self, **values: Any) -> None:
        """Change params.yaml: `mgt__beta=0.5`."""
        set_params(self.folder, **values)

    def hashes(self, *places: str) -> dict[str, str]:
        """Content of some files, and of every file below some folders, by path."""
        tops = [self.folder / place for place in places]
        files = (path for top in tops for path in (top, *sorted(top.rglob("*"))) if path.is_file())
        return {
            path.relative_to(self.folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
        }


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Of a shell in which nothing is activated, and in which git and DVC leave the user's own settings alone.

    Its `python` is a fork of a process that has loaded the libraries, wherever a stage is run.
    """
    own = tmp_path_factory.mktemp("home")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "DVC_", "VIRTUAL_ENV"))}
    who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in IDENTITY.items()}
    found = kept | who
    found |= {
        "GNN_ENCODER_PYTHON": str(FORKS),
        "FORKS": str(own / "socket"),
        "FORKS_PYTHON": sys.executable,
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",  # matrices this small are computed no faster by two threads, only waited for
        "DVC_SITE_CACHE_DIR": str(own / "dvc"),
        "DVC_GLOBAL_CONFIG_DIR": str(own / "config"),
        "DVC_NO_ANALYTICS": "1",
        "COLUMNS": "300",
    }
    command = [sys.executable, str(FORKS), "--serve", found["FORKS"]]
    with subprocess.Popen(command, cwd=ROOT, env=found | {"PYTHONPATH": str(ROOT / "src")}) as server:
        try:
            wait_for(Path(found["FORKS"]), server)
            yield found
        finally:
            server.terminate()


def check_out(project: Project) -> Project:
    """Make the project's folder: what git would check out here, with the tiny experiment; nothing has run in it."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(listing, cwd=ROOT, text=True).split("\0"):
        if (ROOT / name).is_file() and not name.startswith("metrics/") and not name.endswith("dvc.lock"):
            (project.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, project.folder / name, follow_symlinks=False)
    lay_over([str(TINY_PARAMS)], project.folder / "params.yaml")
    return project


def wait_for(path: Path, process: subprocess.Popen[Any] | None = None, seconds: float = 600) -> None:
    """Wait until a file is there; a process that should make it must be alive."""
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end and (process is None or process.poll() is None), f"{path} did not come"
        time.sleep(0.02)


@pytest.fixture(scope="session")
def reproduced(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> tuple[Project, Ran]:
    """The project after `dvc repro` of all pipelines, committed; how that went. Read only: copy it to change it.

    The first worker of pytest-xdist that asks makes it, in a folder of all; another one waits and takes the same.
    """
    own = tmp_path_factory.getbasetemp()
    place = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "reproduced"
    place.mkdir(exist_ok=True)
    project, told = Project(place / "project", environment), place / "ran.json"
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not told.exists():
            check_out(project)
            project.git("init", "--quiet", "--initial-branch=main")
            project.commit("Tiny experiment")
            ran = project.dvc("repro", "--all-pipelines")
            assert ran.status == 0, ran.output[-5000:]
            project.commit("Run it")
            told.write_text(json.dumps(asdict(ran)))
    return project, Ran(**json.loads(told.read_text()))


@pytest.fixture
def copy_of(tmp_path: Path) -> Callable[..., Project]:
    """Makes a copy of a project under `tmp_path`; without git, DVC and source where only stages are to run."""

    def copy(project: Project, *, stages_only: bool = False) -> Project:
        def left_out(folder: str, names: list[str]) -> set[str]:
            kept = STAGES_READ.get(Path(folder).relative_to(project.folder).as_posix()) if stages_only else None
            return set() if kept is None else set(names) - set(kept)

        target = tmp_path / "copy"
        shutil.copytree(project.folder, target, symlinks=True, ignore=left_out)
        return Project(target, project.environment)

    return copy


@pytest.fixture
def stages(reproduced: tuple[Project, Ran], copy_of: Callable[..., Project]) -> Project:
    """A copy of the finished experiment in which to run single stages."""
    return copy_of(reproduced[0], stages_only=True)
