"""A command of `test_kill.py`, in a process of its own that ends at a certain call of the system, as by kill -9.

python killed.py FOLDER COMMAND NUMBER: with NUMBER -1 it only counts the calls and prints how many there are.
"""

import os
import signal
import sys
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


def main(folder: str, command: str, number: int) -> None:
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
    print(count)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
