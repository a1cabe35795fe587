"""SIGKILL of DVC together with its stage; what scripts/heal.py puts right; and that `dvc repro` then goes on."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
import yaml

from ..pipelines import MADE, Project, Ran, wait_for

HEAL = Path(__file__).parents[2] / "scripts" / "heal.py"
BRANCH = "encode_corpus"  # with all that it needs
SECONDS = (0.5, 7.0)  # after which DVC is killed: it needs about two to start, a tiny stage one


@pytest.mark.long
def test_a_branch_killed_again_and_again_comes_out_the_same(
    reproduced: tuple[Project, Ran], copy_of: Callable[..., Project]
) -> None:
    undisturbed = reproduced[0]
    project = copy_of(undisturbed)
    project.git("reset", "--quiet", "--hard", "HEAD~1")  # before the run: without dvc.lock and metrics
    project.git("clean", "--quiet", "--force", "-d", "-x")
    assert project.hashes(*MADE) == {} and not (project.folder / "dvc.lock").exists()

    moments, hit = random.Random(13), False
    for number in range(4):
        hit |= repro_and_kill(project, moments.uniform(*SECONDS), in_a_stage=number % 2 == 1)
        # What a kill leaves now and then, so that no run of this test goes without.
        if number == 1:
            notes(project).write_text("")
        record = project.folder / "dvc.lock"
        if number == 3 and record.exists():
            record.write_text(record.read_text()[: record.stat().st_size // 2])
        healed = project.python("scripts/heal.py")
        assert healed.status == 0, healed.output
    assert hit, "a stage was at work when it was killed"
    last = project.dvc("repro", BRANCH)
    assert last.status == 0, last.output

    recorded = yaml.safe_load(record.read_text())["stages"]
    assert BRANCH in recorded
    made = [Path(out["path"]) for stage in recorded.values() for out in stage["outs"]]
    expected = undisturbed.hashes(*MADE).items()
    assert project.hashes(*MADE) == {name: one for name, one in expected if {Path(name), *Path(name).parents} & {*made}}


def repro_and_kill(project: Project, seconds: float, *, in_a_stage: bool) -> bool:
    """Kill the process group of `dvc repro`, DVC and stage, after some seconds. Returns whether a stage was at work."""
    with started_repro(project, BRANCH) as dvc:
        with suppress(subprocess.TimeoutExpired):
            dvc.wait(seconds)
        while not (hit := at_work(dvc.pid)) and in_a_stage and dvc.poll() is None:
            time.sleep(0.01)
        assert not dvc.poll(), "DVC fails"
        return hit


def at_work(group: int) -> bool:
    """Whether a stage, a fork of the tests' own process, is in a process group."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(process.pid) == group and "--serve" in process.cmdline():
                return True
    return False


@contextmanager
def started_repro(project: Project, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """`dvc repro` in a process group of its own, all of which is killed in the end."""
    command = [sys.executable, "-m", "dvc", "repro", *arguments]
    options = {"cwd": project.folder, "env": project.environment, "stdout": subprocess.DEVNULL}
    with subprocess.Popen(command, **options, stderr=subprocess.DEVNULL, process_group=0) as dvc:
        try:
            yield dvc
        finally:
            with suppress(ProcessLookupError):
                os.killpg(dvc.pid, signal.SIGKILL)
                dvc.wait()
                while True:  # until nobody is left: a stage may just have been forked, and joins late
                    os.killpg(dvc.pid, signal.SIGKILL)
                    time.sleep(0.01)


@pytest.fixture(scope="module")
def finished(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project of one stage, which waits as long as its parameter says, after `dvc repro`, committed."""
    folder = tmp_path_factory.mktemp("small") / "project"
    (folder / "scripts").mkdir(parents=True)
    shutil.copy(HEAL, folder / "scripts")
    (folder / "params.yaml").write_text("seconds: 0\n")
    stage = {"cmd": "echo $$ >process; sleep ${seconds}; cp params.yaml made", "params": ["seconds"], "outs": ["made"]}
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": {"wait": stage}}))
    (folder / ".gitignore").write_text("/made\n/process\n")
    project = Project(folder, environment)
    project.git("init", "--quiet")
    assert project.dvc("init").status == 0
    assert project.dvc("repro").status == 0
    (folder / "process").unlink()
    project.commit("Run it")
    return project


@pytest.fixture
def small(finished: Project, copy_of: Callable[..., Project]) -> Project:
    """A copy of it."""
    return copy_of(finished)


def heal(project: Project, status: int = 0) -> str:
    """What it tells."""
    ran = project.run(sys.executable, "scripts/heal.py")
    assert ran.status == status
    return ran.output


def notes(project: Project) -> Path:
    return project.folder / ".dvc" / "tmp" / "rwlock"


def test_half_written_notes_stop_dvc_until_they_are_healed(small: Project) -> None:
    notes(small).write_text('{"write": 3}')
    small.set_params(seconds=0.1)
    assert small.dvc("repro").status != 0
    assert heal(small) == ""
    assert small.dvc("repro").status == 0
    shutil.rmtree(small.folder / ".dvc" / "tmp")  # as in a fresh clone
    assert heal(small) == ""


def test_a_living_dvc_is_left_alone(small: Project) -> None:
    small.set_params(seconds=60)
    with started_repro(small):
        wait_for(small.folder / "process")
        assert "busy" in small.dvc("repro").output, "DVC says so itself"
        (small.folder / "dvc.lock").write_text("")
        before = notes(small).read_text()
        assert heal(small) == ""
        assert (small.folder / "dvc.lock").read_text() == "" and notes(small).read_text() == before
    assert "heal: dvc.lock was half-written" in heal(small), "when it has been killed"
    assert not notes(small).exists()


def test_a_stage_that_outlived_its_dvc_is_told(small: Project) -> None:
    """Two processes must not build one artifact; who reads its script builds none."""
    (small.folder / "stages").mkdir()
    (small.folder / "stages" / "train.py").write_text("import time\ntime.sleep(60)\n")
    notes(small).write_text("")
    with subprocess.Popen(["tail", "-f", "stages/train.py"], cwd=small.folder, stdout=subprocess.DEVNULL) as reader:
        assert heal(small) == "" and not notes(small).exists()
        reader.kill()
    notes(small).write_text("")
    with subprocess.Popen([sys.executable, "stages/train.py"], cwd=small.folder) as stage:
        told = heal(small, status=1)
        stage.kill()
    assert f"kill {stage.pid}" in told and notes(small).read_text() == ""


def test_a_half_written_record_is_taken_from_git_and_the_run_from_the_cache(small: Project) -> None:
    """A conflict is no damage."""
    record = small.folder / "dvc.lock"
    former = record.read_text()
    record.write_text(conflict := f"<<<<<<< ours\n{former}=======\n>>>>>>> theirs\n")
    assert heal(small) == "" and record.read_text() == conflict
    record.write_text(former)
    small.set_params(seconds=0.1)
    assert small.dvc("repro").status == 0
    latest = record.read_text()
    (small.folder / "process").unlink()
    for kept in (40, 0):
        record.write_text(latest[:kept])
        assert heal(small).startswith("heal: dvc.lock was half-written") and record.read_text() == former
    small.git("rm", "--quiet", "--cached", "dvc.lock")
    record.write_text("")
    assert heal(small) and not record.exists(), "git has none"
    assert small.dvc("repro").status == 0
    assert record.read_text() == latest
    assert not (small.folder / "process").exists(), "what had been run is not run again"
