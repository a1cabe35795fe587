"""Commands of `test_kill.py`, each in a process of its own that ends at a certain call of the system, as by kill -9.

An order is a line of JSON, [folder, command, number]: the process ends before that call. With the number -1 it only
counts them. The answer is a line too: [exit status, calls, or null of one that has not come to its end]. Processes are
forked from this one, which has loaded what they need and started no thread.
"""

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.growing.small import SYSTEM, HashGrower  # noqa: E402

from gnn_encoder.growing import commands  # noqa: E402
from gnn_encoder.growing.compact import compact  # noqa: E402

COMMANDS = {
    "add": lambda: commands.add(SYSTEM, Path("add.jsonl")),
    "delete": lambda: commands.delete(SYSTEM, ["p1", "first-1"]),
    "log": lambda: commands.log(SYSTEM, Path("log.tsv")),
    "compact": lambda: compact(SYSTEM),
    "compact --all": lambda: compact(SYSTEM, whole=True),
    "add --again": lambda: commands.again(SYSTEM),
}
TOUCHING = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir")


def answer(folder: str, command: str, number: int) -> tuple[int, int | None]:
    """Fork, and wait for the end."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        status = 1
        try:
            os.write(writing, str(run(folder, command, number)).encode())
            status = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    with open(reading) as told:
        calls = told.read()
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), int(calls) if calls else None


def run(folder: str, command: str, number: int) -> int:
    """Run the command; end before call `number` that opens, moves, makes or removes something of the index."""
    os.chdir(folder)
    commands.open_grower = HashGrower
    count = 0

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if event in TOUCHING and "grown" in os.fspath(arguments[0] if isinstance(arguments[0], str | Path) else ""):
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1

    sys.addaudithook(watch)
    COMMANDS[command]()
    return count


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(*json.loads(line))), flush=True)
