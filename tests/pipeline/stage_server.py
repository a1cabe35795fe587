"""Runs stage scripts in forks of one process that has the heavy libraries loaded: a real process in tenths of a second.

    python tests/pipeline/stage_server.py SOCKET

Listens on a Unix socket; `forked_python.py` is the other end. A connection brings an order (JSON) with the two files
that become stdout and stderr, and gets the exit status back. An order holds
    folder, command     where to run which script, with its arguments
    group               the process group of who asked: what kills that group kills the stage
    settings            {"module:NAME": value} set before the script starts
    counted             "module:NAME" of a function; each call adds a byte to the file `calls`
    kill_after          SIGKILL to the process itself after this many calls of it
    fail_after          [calls, errno]: the next call raises that OSError instead
"""

import contextlib
import functools
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

PRELOADED = (
    "gnn_encoder.index.bm25",
    "gnn_encoder.data.prepare",
    "gnn_encoder.dual_cross.generator.generation",
    "gnn_encoder.presenting.evaluation",
    "gnn_encoder.index.build",
    "gnn_encoder.mgt.phases",
)
LONGEST_ORDER = 65536


def serve(path: str) -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    assert threading.active_count() == 1, "a fork keeps only the thread that forks"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            with connection:
                order, streams, *_ = socket.recv_fds(connection, LONGEST_ORDER, 2)
                child = os.fork()
                if child == 0:
                    listener.close()
                    run(json.loads(order), streams)
                for stream in streams:
                    os.close(stream)
                status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                with contextlib.suppress(ConnectionError):  # who asked may have been killed
                    connection.send(str(status).encode())


def run(order: dict[str, Any], streams: list[int]) -> None:
    """Never returns: the process ends as the script would end it."""
    try:
        os.setpgid(0, order["group"])
    except OSError:  # the whole group has been killed meanwhile
        os._exit(1)
    os.chdir(order["folder"])
    for number, stream in enumerate(streams, 1):
        os.dup2(stream, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for name, value in order.get("settings", {}).items():
        owner, attribute = resolve(name)
        setattr(owner, attribute, value)
    if "counted" in order:
        watch(order)
    sys.argv = order["command"]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    status = 0
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def watch(order: dict[str, Any]) -> None:
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
    serve(sys.argv[1])
