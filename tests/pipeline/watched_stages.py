"""The stage server, with stages that a test watches and disturbs.

    python tests/pipeline/watched_stages.py FOLDER PID

Like `scripts/stage_server.py`, but it takes every order, and an order can hold besides
    settings            {"module:NAME": value} set before the script starts
    counted             "module:NAME" of a function; each call adds a byte to the file `calls`
    kill_after          SIGKILL to the process itself after this many calls of it
    fail_after          [calls, errno]: the next call raises that OSError instead
"""

import functools
import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from stage_server import Order, Server, end_of, preload


def main(folder: Path, owner: int) -> None:
    preload()
    Server(accepts=lambda order: True, before=disturb).serve(folder / "socket", end_of(owner))


def disturb(order: Order) -> None:
    for name, value in order.get("settings", {}).items():
        setattr(*resolve(name), value)
    if "counted" in order:
        watch(order)


def watch(order: Order) -> None:
    """Put a wrapper that counts, and kills or fails when told to, in the place of a function."""
    owner, attribute = resolve(order["counted"])
    function = getattr(owner, attribute)
    calls = open(order["calls"], "ab", buffering=0)
    fail_after, number = order.get("fail_after", (None, 0))

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if calls.tell() == fail_after:
            raise OSError(number, os.strerror(number))
        result = function(*args, **kwargs)
        calls.write(b".")
        if calls.tell() == order.get("kill_after"):
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, attribute, wrapper)


def resolve(name: str) -> tuple[Any, str]:
    module, _, path = name.partition(":")
    *parents, attribute = path.split(".")
    return functools.reduce(getattr, parents, importlib.import_module(module)), attribute


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
