"""Kills a command of `test_kill.py`, as by kill -9, before calls of the system that touch the versions.

    python killed.py FOLDER COMMAND MOMENTS

It runs the command in the copy FOLDER/whole of FOLDER/project to its end. Then it kills it in the copies FOLDER/0,
FOLDER/1, ... at so many moments, evenly spread, and at the last three calls. Each time the command runs in a process
that is forked from this one, which has loaded what it needs and started no thread. It prints how often it killed.
"""

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.growing.small import SYSTEM, encode  # noqa: E402

from gnn_encoder.growing import commands  # noqa: E402

COMMANDS = {
    "add": lambda: commands.add(SYSTEM, Path("add.jsonl")),
    "delete": lambda: commands.delete(SYSTEM, ["p1", "first-1"]),
}
TOUCHING = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree")


def run(folder: Path, command: str, number: int) -> int:
    """Fork, and wait for the end: the process ends before call `number`; its status says how, or counts the calls."""
    shutil.copytree(folder.parent / "project", folder)
    process = os.fork()
    if process == 0:
        os.chdir(folder)
        commands.open_encoder = lambda system: encode
        count = 0

        def watch(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal count
            if event in TOUCHING and "versions" in str(arguments[0]):
                if count == number:
                    os.kill(os.getpid(), signal.SIGKILL)
                count += 1

        sys.addaudithook(watch)
        try:
            COMMANDS[command]()
        finally:
            os._exit(count)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def main(folder: Path, command: str, moments: int) -> None:
    calls = run(folder / "whole", command, -1)
    numbers = {*np.linspace(0, calls - 1, moments).round().astype(int).tolist(), *range(calls - 3, calls)}
    for place, number in enumerate(sorted(numbers)):
        assert run(folder / str(place), command, number) == -signal.SIGKILL
    print(len(numbers))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
