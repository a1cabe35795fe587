"""kill -9 at any moment of a command leaves the old version or the new one, and the next command works."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gnn_encoder.growing import commands
from gnn_encoder.growing.versions import current, folder_of

from .small import SYSTEM, encode, jsonl, make
from .test_commands import contents

SCRIPT = Path(__file__).with_name("killed.py")
BUILT = {f"p{i}": f"text {i}" for i in range(40)}


@pytest.fixture
def grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with its second version, as the current folder."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setattr(commands, "open_encoder", lambda system: encode)
    make(Path.cwd(), BUILT)
    commands.add(SYSTEM, jsonl(Path("first.jsonl"), {f"first-{i}": f"first {i}" for i in range(5)}))
    commands.delete(SYSTEM, ["p0", "first-0"])
    jsonl(Path("add.jsonl"), {"p2": "changed", "new": "new"})
    return tmp_path


@pytest.mark.parametrize("command", ["add", "delete"])
def test_a_kill_leaves_the_old_version_or_the_new_one(
    command: str, grown: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(SYSTEM)
    called = [sys.executable, str(SCRIPT), str(grown), command, "4"]
    killed = int(subprocess.run(called, check=True, capture_output=True, text=True).stdout)
    monkeypatch.chdir(grown / "whole")
    after, seen = contents(SYSTEM), []
    assert after != before
    for place in range(killed):
        monkeypatch.chdir(grown / str(place))
        seen.append(contents(SYSTEM))
        commands.delete(SYSTEM, ["p9"])
        names = {path.name for path in folder_of(SYSTEM).iterdir()}
        assert {"current.json", "lock", current(SYSTEM).index.parent.name} < names and len(names) == 4
        assert contents(SYSTEM) == {pid: text for pid, text in seen[-1].items() if pid != "p9"}
    assert killed >= 6 and all(state in (before, after) for state in seen) and before in seen


def test_two_writers(grown: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one is told who is at work, and nothing is lost of the first one's."""
    began, go_on = threading.Event(), threading.Event()

    def slow(passages: pl.DataFrame) -> np.ndarray:
        began.set()
        assert go_on.wait(30)
        return encode(passages)

    monkeypatch.setattr(commands, "open_encoder", lambda system: slow)
    first = threading.Thread(target=lambda: commands.add(SYSTEM, Path("add.jsonl")))
    first.start()
    assert began.wait(30)
    told = f"data/versions/gnn_encoder: process {os.getpid()} is changing it; wait until"
    with pytest.raises(ValueError, match=told):
        commands.delete(SYSTEM, ["p5"])
    before = contents(SYSTEM)
    assert "new" not in before and "p5" in before  # a search goes on meanwhile
    go_on.set()
    first.join()
    commands.delete(SYSTEM, ["p5"])
    assert contents(SYSTEM)["p2"] == "changed" and "p5" not in contents(SYSTEM)
