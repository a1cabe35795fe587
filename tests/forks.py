#!/usr/bin/env -S python3 -I -S
"""Runs commands in forks of a process that has loaded the libraries: most of a tiny stage's time would be imports.

    python forks.py --serve SOCKET    serves, until its parent ends
    forks.py ARGUMENT...              stands in for `python`: has a stage run in a fork, and anything else in a process

A fork is watched and disturbed as its order says:
    settings            {"module:NAME": value} set before the script starts
    counted             "module:NAME" of a function; each call adds a byte to the file `calls`
    kill_after          SIGKILL to the process itself after this many calls of it
"""

import functools
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

Order = dict[str, Any]
LOADED = ("dvc.cli", "dvc.repo", "faiss", "matplotlib.figure", "matplotlib.backends.backend_agg", "polars", "torch")
LOADED += ("pyarrow.compute", "transformers.models.bert.modeling_bert", "gnn_encoder.cli")


def ask(path: str, order: Order, streams: list[int]) -> int:
    """Have a command run in a fork. Returns its status, negative for a signal; it is killed with whoever asks."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(path)
        socket.send_fds(connection, [json.dumps(order).encode()], streams)
        return int(connection.recv(16))


def serve(path: str) -> None:
    owner = os.getppid()
    load()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait for the forks
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        while os.getppid() == owner:
            if not select.select([listener], [], [], 1)[0]:
                continue
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                watch(connection)
            connection.close()


def load() -> None:
    """Import what the stages import; a stage's imports do nothing else."""
    for name in LOADED:
        importlib.import_module(name)
    # It compiles a thousand patterns when the first model of a process is loaded, and keeps them.
    importlib.import_module("transformers.conversion_mapping").get_checkpoint_conversion_mapping("bert")
    os.fsync = lambda number: None  # what tests write need not outlive the machine
    for script in Path("stages").glob("*.py"):
        runpy.run_path(str(script))


def watch(connection: socket.socket) -> None:
    """Fork for an order, tell how the fork ends, and kill it if whoever asked hangs up."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, streams, *_ = socket.recv_fds(connection, 2**20, 3)
    fork = os.fork()
    if fork == 0:
        connection.close()
        run(json.loads(message), streams)
    end = os.pidfd_open(fork)
    ready, _, _ = select.select([end, connection], [], [])
    if end not in ready:
        os.kill(fork, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])
    if end in ready:
        connection.send(str(status).encode())
    os._exit(0)


def run(order: Order, streams: list[int]) -> None:
    os.setpgid(0, order["group"])
    signal.alarm(600)  # else a process whose peer has failed would wait for hours
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    disturb(order)
    for command in order["commands"]:
        sys.argv = command[1:] if command[0] == "-m" else command
        status = run_one(command)
        if status:
            break
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def run_one(command: list[str]) -> int:
    try:
        if command[0] == "-m":
            runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(command[0], run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1 if end.code else 0
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def disturb(order: Order) -> None:
    for name, value in order.get("settings", {}).items():
        setattr(*resolve(name), value)
    if "counted" not in order:
        return
    owner, attribute = resolve(order["counted"])
    function = getattr(owner, attribute)
    calls = open(order["calls"], "ab", buffering=0)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
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


def main() -> int:
    """Stand in for `python`."""
    path = os.environ["FORKS"]
    if not sys.argv[1].startswith("stages/") or not os.path.exists(path):
        os.execv(python := os.environ["FORKS_PYTHON"], [python, *sys.argv[1:]])  # it finds its environment by its name
    order = {"folder": os.getcwd(), "commands": [sys.argv[1:]], "environment": dict(os.environ), "group": os.getpgrp()}
    status = ask(path, order, [0, 1, 2])
    if status < 0:
        os.kill(os.getpid(), -status)
        time.sleep(60)
    return status


if __name__ == "__main__":
    serve(sys.argv[2]) if sys.argv[1:2] == ["--serve"] else sys.exit(main())
