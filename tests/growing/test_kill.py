"""A command that is killed at any moment leaves the old version or the new one, and the next command works."""

import builtins
import io
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from gnn_encoder.growing import commands
from gnn_encoder.growing.versions import current, folder_of

from ..small import SYSTEM, contents, encode, jsonl

TOUCHING = ((builtins, "open"), (io, "open"), (os, "mkdir"), (os, "replace"), (os, "rename"), (os, "unlink"))
COMMANDS = {
    "add": lambda: commands.add(SYSTEM, Path("add.jsonl")),
    "delete": lambda: commands.delete(SYSTEM, ["p1", "first-1"]),
}


class Killed(BaseException):
    """Stands for kill -9: from here on the command changes nothing on the disk."""


def end_before(number: int, command: Callable[[], object]) -> int:
    """Run a command until it would touch the versions for the `number`th time; returns how often it did."""
    count = 0

    def watched(function: Any) -> Any:
        def called(*arguments: Any, **named: Any) -> Any:
            nonlocal count
            if "data/versions" in str(arguments[0]):
                if count >= number:
                    raise Killed
                count += 1
            return function(*arguments, **named)

        return called

    with pytest.MonkeyPatch.context() as patch:
        for module, name in (*TOUCHING, (shutil, "rmtree")):
            patch.setattr(module, name, watched(getattr(module, name)))
        try:
            command()
        except Killed:
            pass
    return count


@pytest.fixture
def grown(root: Path) -> Path:
    """A project with its second version, as the current folder."""
    commands.add(SYSTEM, jsonl(Path("first.jsonl"), {f"first-{i}": f"first {i}" for i in range(5)}))
    commands.delete(SYSTEM, ["p0", "first-0"])
    jsonl(Path("add.jsonl"), {"p2": "changed", "new": "new"})
    return root


@pytest.mark.parametrize("command", COMMANDS)
def test_a_kill_leaves_the_old_version_or_the_new_one(
    command: str, grown: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, whole = contents(SYSTEM), grown.with_name("whole")
    shutil.copytree(grown, whole)
    monkeypatch.chdir(whole)
    calls = end_before(1_000, COMMANDS[command])
    after = contents(SYSTEM)
    assert 10 < calls < 1_000 and after != before
    for number in sorted({*range(0, calls, 3), *range(calls - 4, calls)}):
        copy = grown.with_name(f"killed-{number}")
        shutil.copytree(grown, copy)
        monkeypatch.chdir(copy)
        assert end_before(number, COMMANDS[command]) == number
        found = contents(SYSTEM)
        assert found in (before, after)
        commands.delete(SYSTEM, ["p9"])
        names = {path.name for path in folder_of(SYSTEM).iterdir()}
        assert {"current.json", "lock", current(SYSTEM).index.parent.name} < names and len(names) == 4
        assert contents(SYSTEM) == {pid: text for pid, text in found.items() if pid != "p9"}


def test_two_writers(grown: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one is refused, and nothing is lost of the first one's."""
    began, go_on = threading.Event(), threading.Event()

    def slow(passages: pl.DataFrame) -> np.ndarray:
        began.set()
        assert go_on.wait(30)
        return encode(passages)

    monkeypatch.setattr(commands, "open_encoder", lambda system: slow)
    first = threading.Thread(target=lambda: commands.add(SYSTEM, Path("add.jsonl")))
    first.start()
    assert began.wait(30)
    told = "data/versions/gnn_encoder: another command is changing it; wait until"
    with pytest.raises(ValueError, match=told):
        commands.delete(SYSTEM, ["p5"])
    before = contents(SYSTEM)
    assert "new" not in before and "p5" in before  # a search goes on meanwhile
    go_on.set()
    first.join()
    commands.delete(SYSTEM, ["p5"])
    assert contents(SYSTEM)["p2"] == "changed" and "p5" not in contents(SYSTEM)
