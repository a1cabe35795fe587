"""A stage that is forked from scripts/stage_server.py is what it would be as a Python of its own."""

import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from .conftest import ROOT, Project, serving, wait_for

# Serves a package that imports nothing, and so starts at once.
LIGHT_SERVER = """
import sys
from pathlib import Path
import stage_server
stage_server.LATE = ()
stage_server.main(Path(sys.argv[1]), int(sys.argv[2]))
"""
# All that a process gets from whoever starts it, and whether it has been forked.
PROBE = """
import json, os, signal, sys
from gnn_encoder import VALUE
found = {
    "forked": "stage_server" in sys.modules, "value": VALUE, "name": __name__, "file": __file__, "argv": sys.argv,
    "path": sys.path, "folder": os.getcwd(), "environment": dict(os.environ), "group": os.getpgrp(),
    "session": os.getsid(0), "umask": os.umask(0o22), "stdin": "" if sys.stdin.isatty() else sys.stdin.read(),
    "terminals": [stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)],
    "buffered": [sys.stdout.line_buffering, sys.stderr.line_buffering], "files": len(os.listdir("/proc/self/fd")),
    "signals": [str(signal.getsignal(number)) for number in signal.valid_signals()],
}
print(json.dumps(found))
"""
# Leaves a mark for each stage that it forks.
COUNTING_SERVER = """
import sys
from functools import partial
from pathlib import Path
import stage_server
served = Path(sys.argv[1]).with_name("served")
stage_server.Server = partial(stage_server.Server, before=lambda order: served.open("a").write("x"))
stage_server.main(Path(sys.argv[1]), int(sys.argv[2]))
"""
WAIT = """
import os, sys, time
from pathlib import Path
Path("process.part").write_text(str(os.getpid()))
Path("process.part").rename("process")
time.sleep(60)
"""


@pytest.fixture(scope="module")
def project(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A small project with a server."""
    folder = tmp_path_factory.mktemp("starts") / "project"
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    (folder / "scripts" / "light_server.py").write_text(LIGHT_SERVER)
    (folder / "src" / "gnn_encoder").mkdir(parents=True)
    (folder / "src" / "gnn_encoder" / "__init__.py").write_text("VALUE = 1\n")
    (folder / "stages").mkdir()
    project = Project(folder, environment | {"GNN_ENCODER_SERVER": str(folder.parent / "server" / "socket")})
    with serving(project, str(folder / "scripts" / "light_server.py")):
        yield project


def write_stage(project: Project, source: str) -> list[str]:
    (project.folder / "stages" / "stage.py").write_text(source)
    (project.folder / "process").unlink(missing_ok=True)
    return ["scripts/python", "stages/stage.py", "key", "--option"]


def without_server(project: Project) -> Project:
    return Project(project.folder, project.environment | {"GNN_ENCODER_SERVER": ""})


def probe(project: Project, **options: Any) -> dict[str, Any]:
    command = write_stage(project, PROBE)
    options = {"env": project.environment, "input": "text"} | options
    done = subprocess.run(command, cwd=project.folder, stdout=subprocess.PIPE, text=True, check=True, **options)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def both(project: Project, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a forked and a fresh process find; whether they are what they are named, and what tells so, is left out."""
    forked, fresh = probe(project, **options), probe(without_server(project), **options)
    assert (forked.pop("forked"), fresh.pop("forked")) == (True, False)
    for found in (forked, fresh):
        found["environment"].pop("GNN_ENCODER_SERVER")
        found.pop("group"), found["environment"].pop("_", None)
    return forked, fresh


# --- it gets what a process gets --------------------------------------------------------------------------------------


def test_a_fork_gets_all_that_a_fresh_process_gets(project: Project) -> None:
    forked, fresh = both(project)
    assert forked == fresh
    assert forked["stdin"] == "text" and forked["argv"] == ["stages/stage.py", "key", "--option"]


def test_it_gets_the_signals_that_are_ignored(project: Project) -> None:
    def ignore() -> None:
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    forked, fresh = both(project, preexec_fn=ignore)
    assert forked == fresh
    assert forked["signals"] != both(project)[0]["signals"]


def test_it_is_in_the_group_of_who_asks(project: Project) -> None:
    command = write_stage(project, PROBE)
    with subprocess.Popen(
        command,
        cwd=project.folder,
        env=project.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        process_group=0,
    ) as asking:
        assert asking.stdout is not None
        assert json.load(asking.stdout)["group"] == asking.pid


def test_it_writes_to_the_terminal_of_who_asks(project: Project) -> None:
    """A progress bar is drawn on a terminal only."""
    tell = "print(*[(s.isatty(), s.line_buffering) for s in (sys.stdout, sys.stderr)], 'stage_server' in sys.modules)"
    command = write_stage(project, f"import sys; {tell}")
    ours, theirs = pty.openpty()
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    subprocess.run(command, cwd=project.folder, env=project.environment, check=True, **streams)
    assert os.read(ours, 1000).split() == b"(True, True) (True, True) True".split()
    os.close(ours), os.close(theirs)


ENDS = {
    "well": "",
    "status": "raise SystemExit(300)",
    "no status": "raise SystemExit",
    "text": "raise SystemExit('text')",
    "error": "1 / 0",
    "interrupted": "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
    "terminated": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "at the end": "import atexit; atexit.register(print, 'end')",
    "thread": "import threading, time; threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()",
}


@pytest.mark.parametrize("source", ENDS.values(), ids=ENDS)
def test_it_ends_as_a_fresh_process_ends(project: Project, source: str) -> None:
    forked, fresh = (run.run(*write_stage(project, source)) for run in (project, without_server(project)))
    assert (forked.status, forked.stdout) == (fresh.status, fresh.stdout)
    assert forked.stderr.splitlines()[-1:] == fresh.stderr.splitlines()[-1:]


@pytest.mark.slow
def test_a_fork_makes_the_same_artifacts_to_the_byte(fresh: Project, tmp_path: Path) -> None:
    """Also a training's: weights and history."""
    made, served = {}, tmp_path / "served"
    for name in ("forked", "fresh"):
        own = {"GNN_ENCODER_SERVER": str(tmp_path / name / "socket")}
        copy = Project(tmp_path / name / "project", fresh.environment | own)
        shutil.copytree(fresh.folder, copy.folder, symlinks=True)
        copy.git("reset", "--quiet", "--hard", copy.git("rev-list", "--max-parents=0", "HEAD").strip())
        copy.git("clean", "--quiet", "--force", "-d", "-x")  # the experiment may have run in it
        script = copy.folder / "scripts" / "counting_server.py"
        script.write_text(COUNTING_SERVER)
        with serving(copy, str(script)) if name == "forked" else nullcontext():
            ran = copy.dvc("repro", "cache_passages@retriever")
        assert ran.status == 0, ran.output
        assert served.stat().st_size == ran.output.count("Running stage") > 5, "all are forked, then none"
        made[name] = copy.hashes("data")
    assert made["forked"] == made["fresh"] and len(made["fresh"]) > 20


WITHOUT_GPU = """
import torch

def refuse(*arguments):
    raise AssertionError("a GPU that is asked for here cannot be used by forks")

for name in ("is_available", "device_count", "_lazy_init"):
    setattr(torch.cuda, name, refuse)
import stage_server
stage_server.preload()
assert not stage_server.has_opened_gpu()
"""


@pytest.mark.slow
def test_nothing_looks_for_a_gpu_while_it_is_loaded() -> None:
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'scripts'}:{ROOT / 'src'}"}
    subprocess.run([sys.executable, "-c", WITHOUT_GPU], env=environment, check=True)


WITHOUT_EXTRAS = """
import sys

for name in ("fastapi", "uvicorn", "starlette", "prometheus_client", "beir", "onnx", "onnxruntime", "ir_datasets"):
    sys.modules[name] = None
import stage_server
stage_server.preload()
assert "gnn_encoder.training.loop" in sys.modules and "gnn_encoder.serving.app" not in sys.modules
"""


@pytest.mark.slow
def test_stages_are_loaded_where_extras_are_not_installed() -> None:
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'scripts'}:{ROOT / 'src'}"}
    subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS], env=environment, check=True)


# --- where a fork would be another ------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"OMP_NUM_THREADS": "2"}, {"NEW": "1"}])
def test_other_variables_start_a_process(project: Project, change: dict[str, str]) -> None:
    found = probe(project, env=project.environment | change)
    assert not found["forked"]
    assert change.items() <= found["environment"].items()


def test_variables_of_dvc_do_not(project: Project) -> None:
    found = probe(project, env=project.environment | {"DVC_STAGE": "prepare"})
    assert found["forked"] and found["environment"]["DVC_STAGE"] == "prepare"


def test_source_that_has_changed_starts_a_process(project: Project) -> None:
    file = project.folder / "src" / "gnn_encoder" / "__init__.py"
    before = file.stat()
    file.write_text("VALUE = 23\n")
    found = probe(project)
    assert (found["value"], found["forked"]) == (23, False)
    file.write_text("VALUE = 1\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    new = file.with_name("new.py")
    new.write_text("")
    assert not probe(project)["forked"]
    new.unlink()
    assert probe(project)["forked"]


def test_another_session_starts_a_process(project: Project) -> None:
    assert not probe(project, start_new_session=True)["forked"]


def test_a_server_that_is_gone_misleads_nobody(project: Project, tmp_path: Path) -> None:
    """One that is killed leaves its socket."""
    left = tmp_path / "socket"
    socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).bind(str(left))
    assert left.is_socket()
    assert not probe(project, env=project.environment | {"GNN_ENCODER_SERVER": str(left)})["forked"]


def test_who_asks_for_nothing_does_no_harm(project: Project) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(project.environment["GNN_ENCODER_SERVER"])
    assert probe(project)["forked"]


# --- kills ------------------------------------------------------------------------------------------------------------


def start(project: Project, **options: Any) -> tuple[subprocess.Popen[bytes], psutil.Process]:
    """A stage that waits: who asks for it, and its process."""
    command = write_stage(project, WAIT)
    asking = subprocess.Popen(
        command, cwd=project.folder, env=project.environment, stderr=subprocess.PIPE, process_group=0, **options
    )
    wait_for(project.folder / "process", asking)
    stage = psutil.Process(int((project.folder / "process").read_text()))
    assert stage.pid != asking.pid, "it is forked"
    return asking, stage


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_to_the_group_reaches_the_stage(project: Project, number: signal.Signals) -> None:
    asking, stage = start(project)
    os.killpg(asking.pid, number)
    assert asking.wait(20) == -number
    assert gone(stage)


def test_several_stages_run_at_once_and_the_kill_of_who_asks_is_its_stages_end(project: Project) -> None:
    first, stage = start(project)
    second, other = start(project)
    first.kill()
    assert gone(stage) and other.is_running() and second.poll() is None
    assert probe(project)["forked"]
    second.kill()
    assert gone(other)


def gone(process: psutil.Process) -> bool:
    """Whether a process ends, or has ended."""
    try:
        process.wait(20)
    except psutil.TimeoutExpired:
        return False
    return True


def test_the_end_of_the_server(project: Project, tmp_path: Path) -> None:
    """Whoever waits for a stage of it kills the stage, says so, and later stages start without it."""
    own = Project(project.folder, project.environment | {"GNN_ENCODER_SERVER": str(tmp_path / "server" / "socket")})
    with serving(own, str(own.folder / "scripts" / "light_server.py")) as server:
        asking, stage = start(own)
        os.kill(server, signal.SIGKILL)
        assert asking.wait(20) == 1
        assert asking.stderr is not None and asking.stderr.read().startswith(b"error: the stage server was killed")
        assert gone(stage)
        assert not probe(own)["forked"]


@pytest.fixture
def reproducing(project: Project, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], list[psutil.Process]]]:
    """scripts/reproduce.sh in the midst of a stage: its process and those of the server, DVC and the stage."""
    copy = Project(tmp_path / "copy", project.environment | {"TMPDIR": str(tmp_path / "temporary")})
    shutil.copytree(project.folder, copy.folder)
    scripts = copy.folder / "scripts"
    (scripts / "environment.sh").write_text("")  # the environment of this test is there
    (scripts / "stage_server.py").rename(scripts / "real_server.py")
    (scripts / "stage_server.py").write_text(LIGHT_SERVER.replace("stage_server", "real_server"))
    (copy.folder / ".venv").symlink_to(sys.prefix)
    write_stage(copy, WAIT)
    when_served = "while [ ! -S $GNN_ENCODER_SERVER ]; do sleep 0.1; done; scripts/python stages/stage.py"
    (copy.folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": {"wait": {"cmd": when_served}}}))
    (tmp_path / "temporary").mkdir()
    assert copy.dvc("init", "--no-scm").status == 0
    command = ["bash", "scripts/reproduce.sh", "wait"]
    with subprocess.Popen(command, cwd=copy.folder, env=copy.environment, process_group=0) as script:
        try:
            wait_for(copy.folder / "process", script)
            all_of_it = psutil.Process(script.pid).children(recursive=True)
            names = ("scripts/stage_server.py", "scripts/run_dvc.py")
            server, dvc = (next(process for process in all_of_it if name in process.cmdline()) for name in names)
            stage = psutil.Process(int((copy.folder / "process").read_text()))
            assert stage.ppid() == server.pid
            yield script, [server, dvc, stage]
        finally:
            with suppress(ProcessLookupError):
                os.killpg(script.pid, signal.SIGKILL)


def test_reproduce_at_work_is_not_healed(reproducing: Any, tmp_path: Path, environment: dict[str, str]) -> None:
    """Even where DVC's notes of itself cannot be read: it is seen among the processes."""
    project = Project(tmp_path / "copy", environment)
    notes = project.folder / ".dvc" / "tmp" / "rwlock"
    notes.write_text("")
    healed = project.run(sys.executable, "scripts/heal.py")
    assert (healed.status, healed.output, notes.read_text()) == (0, "", "")


def test_the_server_ends_with_reproduce(reproducing: Any, tmp_path: Path) -> None:
    script, processes = reproducing
    script.terminate()
    assert script.wait(20) == -signal.SIGTERM
    assert all(map(gone, processes))
    assert list((tmp_path / "temporary").iterdir()) == []


def test_the_server_ends_after_a_kill_of_reproduce(reproducing: Any, tmp_path: Path) -> None:
    """DVC and its stage go on without the script; the server with them, until the stage ends."""
    script, (server, dvc, stage) = reproducing
    (folder,) = (tmp_path / "temporary").glob("*/socket")
    script.kill()
    assert script.wait(20) == -signal.SIGKILL
    time.sleep(0.5)
    assert server.is_running() and dvc.is_running() and stage.is_running()
    stage.kill()
    assert gone(dvc) and gone(server)
    assert not folder.parent.exists()
