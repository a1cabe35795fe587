"""Faults of a machine while stages run: afterwards each artifact is whole and as undisturbed, or is told of in a line.

    scripts/test.sh tests/faults --long        all of it, an hour on two cores, with a table of figures

Without `--long` some of each kind are tried. The kills of single stages are in test_kill.py, those of DVC in
test_killed_repro.py.
"""

import fcntl
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gnn_encoder.base.files import is_damaged

from ..conftest import LONG
from ..pipeline.test_bad_input import FULL, check
from ..pipelines import ROOT, TIMED, Project, Ran, serving, wait_for
from .conftest import Tell
from .test_kill import CASES, OFTEN, Case
from .test_killed_repro import at_work, started_repro

IS_LONG = bool(os.environ.get(LONG))
KILLS = 10  # of each stage
LIMITS = "memory.limit_in_bytes", "memory.max"  # of a control group's memory, in cgroup's versions 1 and 2
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a flipped bit": lambda content: content[: len(content) // 2] + flip(content[len(content) // 2 :]),
    "half of a file": lambda content: content[: len(content) // 2],
    "an empty file": lambda content: b"",
    "a torn file": lambda content: content[: len(content) // 2] + bytes(len(content) - len(content) // 2),
}


def flip(content: bytes) -> bytes:
    return bytes([content[0] ^ 16]) + content[1:]


def damage(path: Path, kind: str) -> bool:
    """Change a file as a disk does, which leaves its times. Returns whether it differs."""
    content, state = path.read_bytes(), path.stat()
    damaged = DAMAGES[kind](content) if content else content
    path.unlink()  # it may be a link into a cache
    path.write_bytes(damaged)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    return damaged != content


def wrong(found: dict[str, str], expected: dict[str, str]) -> int:
    """How many files differ, but those that tell of time."""
    names = [name for name in found.keys() | expected.keys() if not name.startswith(TIMED)]
    return sum(found.get(name) != expected.get(name) for name in names)


def some(of: list[Any], number: int) -> list[Any]:
    """All with `--long`, else the first so many of a fixed order."""
    return of if IS_LONG else random.Random(5).sample(of, number)


# --- kills ------------------------------------------------------------------------------------------------------------

LONG_STAGES = [
    *("untouched", "train_dual_encoder@retriever", "train_cross_encoder", "denoise", "cache_passages@retriever"),
    *("train_dual_encoder@dual_encoder", "train_no_gnn", "embed_edges@gnn_encoder", "train_mgt@gnn_encoder"),
    *("encode_corpus@gnn_encoder", "build_index@gnn_encoder", "baselines", "mine_candidates"),
]


@pytest.mark.long
@pytest.mark.parametrize("stage", LONG_STAGES)
def test_kills_at_random(
    stage: str, reproduced: tuple[Project, Ran], copy_of: Callable[..., Project], tell: Tell
) -> None:
    """SIGKILL of DVC and its stage at any moment, then `dvc repro`, which finds no former run in its cache."""
    project, moments = copy_of(reproduced[0]), random.Random(stage)
    expected = project.hashes("data", "metrics", "plots")
    alone = project.dvc("repro", "--single-item", "--force", stage)
    assert alone.status == 0, alone.output
    for _ in range(KILLS):
        began = time.monotonic()
        with started_repro(project, "--single-item", "--force", stage) as dvc:
            time.sleep(moments.uniform(0.3, alone.seconds))
            hit = at_work(dvc.pid)
        shutil.rmtree(project.folder / ".dvc" / "cache" / "runs", ignore_errors=True)
        assert project.python("scripts/heal.py").status == 0
        again = project.dvc("repro", "--single-item", stage)
        assert again.status == 0, again.output
        lost = max(0.0, time.monotonic() - began - alone.seconds)
        found = project.hashes("data", "metrics", "plots")
        tell(f"SIGKILL {'in a stage' if hit else 'in DVC'}", wrong=wrong(found, expected), lost=lost)


@pytest.mark.parametrize("case", some(CASES, 3), ids=str)
def test_a_machine_that_stops_loses_what_is_not_synced(stages: Any, case: Case, tell: Tell) -> None:
    """A kill after which each file is empty that was not synced since its last change: none of them is trusted."""
    command, order = case.command.split(), {"settings": OFTEN, "counted": case.written}
    undisturbed = stages.stage(*command, **order)
    assert undisturbed.status == 0, undisturbed.stderr
    expected = stages.hashes("data")
    killed = stages.stage(*command, **order, kill_after=case.after, lose=True)
    assert killed.status == -signal.SIGKILL
    assert stages.hashes("data") == expected
    resumed = stages.stage(*command, **order)
    assert resumed.status == 0, resumed.stderr
    lost = max(0.0, killed.seconds + resumed.seconds - undisturbed.seconds)
    tell("unsynced writes lost", wrong=wrong(stages.hashes("data"), expected), lost=lost)


@pytest.mark.parametrize("calls", range(1, 30) if IS_LONG else (3, 6))
def test_a_machine_that_stops_while_artifacts_move(stages: Any, calls: int, tell: Tell) -> None:
    """After each rename of the last step what has its new name is whole, and what comes next makes the rest."""
    expected = stages.hashes("data")
    order = {
        "counted": "pathlib:Path.rename" if calls % 2 else "pathlib:Path.replace",
        "kill_after": calls,
        "lose": True,
    }
    killed = stages.stage("untouched", **order)
    assert killed.status == -signal.SIGKILL or (killed.status == 0 and calls > 6)  # there are more renames than 6
    for name in ("data/untouched", "data/embeddings/untouched", "data/indexes/untouched", "data/runs/untouched"):
        assert not is_damaged(stages.folder / name), name
    again = stages.stage("untouched")
    assert again.status == 0, again.stderr
    if killed.status:
        tell("unsynced writes lost", wrong=wrong(stages.hashes("data"), expected))


# --- damaged artifacts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_of_every_file_is_seen(stages: Any, kind: str, tell: Tell) -> None:
    """Of artifacts, and of caches, which are made again."""
    manifests = [path for top in ("data", ".scratch") for path in sorted((stages.folder / top).rglob("manifest.json"))]
    artifacts = [manifest.parent for manifest in manifests if "content" in manifest.read_text()]
    assert len(artifacts) > 40
    caches = {folder.relative_to(stages.folder).parts[1] for folder in artifacts if ".scratch" in folder.parts}
    assert caches >= {"tokens", "unpacked_features"}
    for folder in artifacts if IS_LONG else artifacts[:: len(artifacts) // 8]:
        for path in [path for path in folder.rglob("*") if path.is_file()]:
            shutil.copy2(path, stages.folder / "kept")
            if damage(path, kind):
                tell(kind, wrong=int(not is_damaged(folder)))
            shutil.move(stages.folder / "kept", path)
        assert not is_damaged(folder)


@pytest.mark.parametrize(
    ("kind", "path", "command", "cure"),
    [
        (
            "a flipped bit",
            "data/embeddings/dual_encoder/embeddings.npy",
            "train_mgt gnn_encoder",
            "cache_passages.py d",
        ),
        ("half of a file", "data/mgt/gnn_encoder/gnn.safetensors", "encode_corpus gnn_encoder", "train_mgt.py gnn_"),
        ("an empty file", "data/prepared/passages.parquet", "cache_passages retriever", "prepare.py"),
        ("a torn file", "data/cross_encoder/manifest.json", "denoise", "train_cross_encoder.py"),
    ],
)
def test_a_stage_names_damage_and_its_cure_before_it_works(
    stages: Any, kind: str, path: str, command: str, cure: str
) -> None:
    assert damage(stages.folder / path, kind)
    before = stages.hashes("data", "metrics", "plots")
    artifact = "data/prepared" if "prepared" in path else str(Path(path).parent)
    ran = stages.stage(*command.split())
    check(stages, ran, before, f"{artifact}: damaged: ", "make it again: `scripts/python stages/", cure)


# --- disks and memory -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """An environment whose forks can find every write refused."""
    folder = tmp_path_factory.mktemp("shim")
    built = ["cc", "-shared", "-fPIC", "-O1", "-o", folder / "shim.so", Path(__file__).with_name("full_disk.c"), "-ldl"]
    subprocess.run(built, check=True)
    own = environment | {"LD_PRELOAD": str(folder / "shim.so"), "FORKS": str(folder / "socket")}
    with serving(ROOT, own):
        yield own


@pytest.mark.long
@pytest.mark.parametrize("command", [command for command, _ in FULL])
def test_a_full_disk_at_every_write(stages: Any, shim: dict[str, str], command: str, tell: Tell) -> None:
    before, after, ran = stages.hashes("data", "metrics", "plots"), 0, None
    while ran is None or ran.status:
        disk = Project(stages.folder, shim | {"FULL_DISK_AFTER": str(after)})
        ran = disk.stage(*command.split())
        if ran.status:
            check(disk, ran, before, "no space left on the disk")
        tell("full disk", wrong=wrong(stages.hashes("data", "metrics", "plots"), before))
        after += max(512, after // 3)


def test_a_folder_that_cannot_be_written(stages: Any) -> None:
    """Root may write where modes forbid it, so that the file system is made one that cannot be written."""
    place = str(stages.folder / ".scratch")
    shutil.rmtree(place)
    os.mkdir(place)
    mount = ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", place]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a file system here")
    try:
        before = stages.hashes("data", "metrics", "plots")
        check(stages, stages.stage("prepare"), before, ".scratch", "Read-only file system; work on a disk that can be")
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.long
@pytest.mark.parametrize("command", ["train_mgt gnn_encoder", "train_cross_encoder", "untouched"])
def test_too_little_memory(stages: Any, command: str, tell: Tell) -> None:
    expected = stages.hashes("data", "metrics", "plots")
    ran = stages.stage(*command.split(), memory=1)
    if ran.status == -signal.SIGABRT:  # Polars ends the process where it gets no thread
        assert stages.hashes("data", "metrics", "plots") == expected
    else:
        check(stages, ran, expected, "out of memory")
    assert stages.stage(*command.split()).status == 0
    tell("out of memory", wrong=wrong(stages.hashes("data", "metrics", "plots"), expected))


@pytest.fixture
def control_group() -> Iterator[Path]:
    """A control group whose memory can be limited, of cgroup's version 1 or 2."""
    for top in (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")):
        group = top / f"gnn-encoder-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if any((group / name).exists() for name in LIMITS):
                yield group
                return
        finally:
            group.rmdir()
    pytest.skip("no right to make a control group here")


@pytest.mark.long
@pytest.mark.parametrize("mebibytes", [2, 16, 64])
@pytest.mark.parametrize("command", ["train_mgt gnn_encoder", "train_cross_encoder", "untouched"])
def test_the_kernel_ends_a_stage_for_its_memory(
    stages: Any, control_group: Path, command: str, mebibytes: int, tell: Tell
) -> None:
    expected = stages.hashes("data", "metrics", "plots")
    limit = next(path for name in LIMITS if (path := control_group / name).exists())
    limit.write_text(str(mebibytes * 2**20))
    ran = stages.stage(*command.split(), cgroup=str(control_group))
    assert ran.status == -signal.SIGKILL or (ran.status == 0 and mebibytes > 2)
    found = wrong(stages.hashes("data", "metrics", "plots"), expected)
    assert stages.stage(*command.split()).status == 0
    found += wrong(stages.hashes("data", "metrics", "plots"), expected)
    tell("out of memory, by the kernel" if ran.status else "nearly out of memory", wrong=found)


# --- clocks, keys and company -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", some([case for case in CASES if "train" not in case.command], 1), ids=str)
def test_a_clock_that_jumps_back(stages: Any, case: Case, tell: Tell) -> None:
    """All that is there, a killed call's part too, is then of tomorrow."""
    command, order = case.command.split(), {"settings": OFTEN, "counted": case.written}
    assert stages.stage(*command, **order).status == 0
    expected, tomorrow = stages.hashes("data"), time.time() + 86_400
    assert stages.stage(*command, **order, kill_after=case.after).status == -signal.SIGKILL
    for path in stages.folder.rglob("*"):
        os.utime(path, (tomorrow, tomorrow), follow_symlinks=False)
    assert stages.stage(*command, **order).status == 0
    tell("clock that jumps back", wrong=wrong(stages.hashes("data"), expected))


@pytest.mark.parametrize("stage", some(LONG_STAGES[1:4], 1))
def test_an_interrupt_ends_soon(
    stage: str, reproduced: tuple[Project, Ran], copy_of: Callable[..., Project], tell: Tell
) -> None:
    project = copy_of(reproduced[0])
    expected = project.hashes("data")
    with started_repro(project, "--single-item", "--force", stage) as dvc:
        wait_for(project.folder / ".dvc" / "tmp" / "rwlock", dvc)
        while not at_work(dvc.pid):
            time.sleep(0.01)
        os.killpg(dvc.pid, signal.SIGINT)
        began = time.monotonic()
        dvc.wait(60)
        assert time.monotonic() - began < 5
    assert project.dvc("repro", "--single-item", stage).status == 0
    tell("Ctrl-C", wrong=wrong(project.hashes("data"), expected))


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A git repository with scripts/environment.sh, whose .venv is up to date for that script."""
    for name in ("scripts/environment.sh", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    for folder in ("bin", ".installed"):
        (tmp_path / ".venv" / folder).mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    key = subprocess.run("cat pyproject.toml constraints.txt | cksum", shell=True, cwd=tmp_path, stdout=subprocess.PIPE)
    (tmp_path / ".venv" / ".installed" / "cpu").write_text(f"{key.stdout.decode().strip()} {tmp_path.resolve()}\n")
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
