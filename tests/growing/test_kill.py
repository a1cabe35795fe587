"""kill -9 at any moment of a command leaves the old state or the new one, and the next command works."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from gnn_encoder.core.records import PASSAGES
from gnn_encoder.growing import commands, search
from gnn_encoder.growing.compact import compact
from gnn_encoder.growing.place import folder_of
from gnn_encoder.growing.search import GrownIndex
from gnn_encoder.index.build import PID_TABLE, PIDS
from gnn_encoder.index.search import PassageIndex, TableRows
from gnn_encoder.pipeline import project

from .small import SYSTEM, HashGrower, jsonl, make

SCRIPT = Path(__file__).with_name("killed.py")
COMMANDS = ("add", "delete", "log", "compact", "compact --all", "add --again")
MOMENTS = 4  # of each command, evenly spread over its calls of the system
BUILT = {f"p{i}": f"text {i}" for i in range(40)}


@pytest.fixture
def grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with three segments, as the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "open_grower", HashGrower)
    make(tmp_path, BUILT)
    commands.add(SYSTEM, jsonl(tmp_path / "first.jsonl", {f"first-{i}": f"first {i}" for i in range(5)}))
    commands.delete(SYSTEM, ["p0", "first-0"])
    (tmp_path / "log.tsv").write_text("query\tp3\n")
    commands.log(SYSTEM, tmp_path / "log.tsv")
    (tmp_path / "log.tsv").write_text("another\tp4\n")
    jsonl(tmp_path / "add.jsonl", {"p2": "changed", "new": "new"})
    return tmp_path


def state(folder: Path) -> dict[str, str]:
    """All passages that can be found, with their texts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        base = PassageIndex.open(project.index(SYSTEM))
        index = GrownIndex.open(base)
        assert index is not None
        rows, _ = index.search(np.ones((1, index.dimension), np.float32), index.passages)
        assert (rows >= 0).all()
        names = index.tables(TableRows(base.folder / PIDS, PID_TABLE), ["pid"]).take(rows[0])
        texts = index.tables(TableRows(project.PASSAGES, PASSAGES), ["pid", "text"]).take(rows[0])
        assert [one["pid"] for one in names] == [one["pid"] for one in texts]
        return {one["pid"]: one["text"] for one in texts}


Run = Callable[..., tuple[int, int | None]]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Runs a command as killed.py says: `run(folder, command, number)` is its status and how many calls it made."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, SCRIPT], text=True, **pipes) as process:

        def order(folder: Path, command: str, number: int = -1) -> tuple[int, int | None]:
            print(json.dumps([str(folder), command, number]), file=process.stdin, flush=True)
            status, calls = json.loads(process.stdout.readline())
            return status, calls

        yield order


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_kill_leaves_the_old_state_or_the_new_one(command: str, run: Run, grown: Path, tmp_path: Path) -> None:
    before = state(grown)
    if command == "add --again":
        make(grown, {**BUILT, "p40": "text 40"})
    whole = tmp_path / "whole"
    shutil.copytree(grown, whole)
    status, calls = run(whole, command)
    assert status == 0 and calls is not None and calls > MOMENTS
    after = state(whole)
    for number in np.linspace(0, calls - 1, MOMENTS).round().astype(int).tolist():
        copy = tmp_path / f"killed-{number}"
        shutil.copytree(grown, copy, ignore=shutil.ignore_patterns("whole", "killed-*"))
        assert run(copy, command, number) == (-signal.SIGKILL, None)
        if index_of(copy) == index_of(whole):  # not so where `--again` has yet to bring it there
            assert state(copy) in (before, after)
            continue_with(copy)
        else:
            assert run(copy, command)[0] == 0
            assert state(copy) == after


def index_of(folder: Path) -> str:
    """The index that a project's additions belong to."""
    return str(json.loads((folder / folder_of(SYSTEM) / "manifest.json").read_text())["index"])


def continue_with(folder: Path) -> None:
    """The next command works, and removes what the killed one left."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        commands.delete(SYSTEM, ["p9"])
        compact(SYSTEM)
        manifest = json.loads((folder_of(SYSTEM) / "manifest.json").read_text())
        named = {f"{entry['number']:06d}" for entry in manifest["segments"]}
        assert set(os.listdir(folder_of(SYSTEM))) == {"manifest.json", "lock", *named}
        assert "p9" not in state(folder)


def test_two_writers(grown: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one is told who is at work, and nothing is lost of the first one's."""
    began, go_on = threading.Event(), threading.Event()

    class SlowGrower(HashGrower):
        def add(self, *arguments: object) -> object:
            began.set()
            assert go_on.wait(30)
            return super().add(*arguments)

    monkeypatch.setattr(commands, "open_grower", SlowGrower)
    first = threading.Thread(target=lambda: commands.add(SYSTEM, grown / "add.jsonl"))
    first.start()
    assert began.wait(30)
    with pytest.raises(ValueError, match=f"data/grown/gnn_encoder: process {os.getpid()} is changing it; wait until"):
        commands.delete(SYSTEM, ["p5"])
    before = state(grown)
    assert "new" not in before and "p5" in before  # a search goes on meanwhile
    go_on.set()
    first.join()
    commands.delete(SYSTEM, ["p5"])
    assert state(grown)["p2"] == "changed" and "p5" not in state(grown)


def test_an_open_index_goes_on_after_its_segments_were_merged(grown: Path) -> None:
    base = PassageIndex.open(project.index(SYSTEM))
    index = GrownIndex.open(base)
    assert index is not None
    tables = index.tables(TableRows(base.folder / PIDS, PID_TABLE), ["pid"])
    query = np.ones((1, index.dimension), np.float32)
    before = tables.take(index.search(query, 40)[0][0])
    compact(SYSTEM, whole=True)
    assert tables.take(index.search(query, 40)[0][0]) == before


def test_an_index_that_is_opened_while_its_segments_are_merged(grown: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest was read, then another command merged what it names: the new state is opened."""
    before, reading = state(grown), search.read_overlay

    def late(*arguments: str) -> object:
        overlay = reading(*arguments)
        monkeypatch.setattr(search, "read_overlay", reading)
        compact(SYSTEM)
        return overlay

    monkeypatch.setattr(search, "read_overlay", late)
    assert state(grown) == before
