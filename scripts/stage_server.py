"""Starts stages in tenths of a second: a process that has the libraries loaded, and forks itself for each stage.

    scripts/python scripts/stage_server.py FOLDER PID

Many a stage takes less time than torch and transformers need to load. This process loads all modules of the package
once, and then waits at the Unix socket FOLDER/socket, where `forked_python.py`, which `scripts/python` calls, asks for
a stage. A stage is a process of its own, like one that Python starts for it, but has the modules already. Where it
would differ otherwise, the server declines, and the stage starts as it would without a server.

The server ends with the process PID, but for a stage that is running then, and removes FOLDER. It serves whoever can
open the socket, so FOLDER should be its user's alone.

An order is a message of JSON with the files that become stdin, stdout and stderr. It holds
    folder, command         where to run which script, with its arguments
    environment, ignored    the variables of who asks, and the signals that it ignores
    process, group          who asks, and its process group: what kills that group kills the stage
It is answered with the number of the stage's process, or 0 if the server declines; and when the stage has ended, with
its status as `subprocess` has it. If who asked hangs up before that, the stage is killed.
"""

import atexit
import functools
import gc
import importlib
import importlib.util
import json
import os
import pkgutil
import selectors
import shutil
import signal
import socket
import sys
import threading
import types
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, NoReturn

from forked_python import SIGNALS

Order = dict[str, Any]
PACKAGE = "gnn_encoder"
SOURCE = Path(__file__).resolve().parents[1] / "src" / PACKAGE
# What is imported late: by transformers with the first model, by pyarrow with the first table, by us with a picture.
LATE = ("transformers.models.bert.modeling_bert", "pandas", "matplotlib.figure", "matplotlib.backends.backend_agg")
OF_A_COMMAND = {"_", "OLDPWD", "PWD", "SHLVL", "DVC_ROOT", "DVC_STAGE"}  # variables that a shell and DVC set for each
LONGEST_ORDER = 2**20  # bytes; the kernel sends no message as long as this


def main(folder: Path, owner: int) -> None:
    """Serve this project's stages."""
    try:
        owner_ends = end_of(owner)
    except (AttributeError, OSError):  # not Linux, or an old one
        return
    source, environment = state_of_source(), settings(os.environ)

    def accepts(order: Order) -> bool:
        """Whether a fork would be what a fresh process is: with the same code and variables, at the same terminal."""
        with suppress(ProcessLookupError):  # it may have been killed meanwhile
            same_session = os.getsid(order["process"]) == os.getsid(0)
            return same_session and settings(order["environment"]) == environment and state_of_source() == source
        return False

    preload()
    if has_opened_gpu():
        sys.exit("stage server: a library opened the GPU while it was loaded, so stages are not forked")
    Server(accepts).serve(folder / "socket", owner_ends)
    shutil.rmtree(folder, ignore_errors=True)


def end_of(process: int) -> FileIO:
    """A file that becomes readable when the process ends."""
    return FileIO(os.pidfd_open(process))


def state_of_source() -> dict[str, tuple[int, int]]:
    """When each file of the package was changed (ns), and its size (bytes)."""
    states = {str(path): path.stat() for path in SOURCE.rglob("*.py")}
    return {path: (state.st_mtime_ns, state.st_size) for path, state in states.items()}


def settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that can decide how a process runs. Libraries read many of them only when they are loaded."""
    return {name: value for name, value in environment.items() if name not in OF_A_COMMAND}


def preload() -> None:
    """Import all that stages import. Modules for an extra that is not installed, such as `serve`, are none of these."""
    package = importlib.import_module(PACKAGE)
    for module in pkgutil.walk_packages(package.__path__, f"{PACKAGE}."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith(PACKAGE):
                raise
    for name in LATE:
        if importlib.util.find_spec(name.partition(".")[0]):  # pyarrow takes pandas only where it is installed
            importlib.import_module(name)


def has_opened_gpu() -> bool:
    """Whether a library has initialised CUDA, which a fork of this process could not use then."""
    files = (os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd"))
    return any(file.startswith("/dev/nvidia") for file in files)


# --- serving ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stage:
    """A stage that is running."""

    process: int
    ends: FileIO
    connection: socket.socket  # to who asked for it


class Server:
    """Forks a process for each order that it accepts."""

    def __init__(self, accepts: Callable[[Order], bool], before: Callable[[Order], None] = lambda order: None) -> None:
        """`before` is called in the fork, before the script."""
        self._accepts, self._before = accepts, before
        # Each file with what to call when it is readable. (With epoll, forks would share it.)
        self._watched = selectors.PollSelector()

    def serve(self, path: Path, owner_ends: FileIO) -> None:
        """Listen at `path` until the owner has ended, and the last stage."""
        assert threading.active_count() == 1, "a fork keeps only the thread that forks"
        gc.collect()
        gc.freeze()  # what is loaded stays: a fork that looked through it would copy it
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(str(path))
        listener.listen()
        self._watch(listener, self._start, listener)
        self._watch(owner_ends, self._forget, owner_ends, listener)
        while self._watched.get_map():
            key, _ = self._watched.select()[0]  # one at a time: a call may close others
            key.data()

    def _watch(self, file: FileIO | socket.socket, call: Callable[..., None], *arguments: Any) -> None:
        self._watched.register(file, selectors.EVENT_READ, functools.partial(call, *arguments))

    def _forget(self, *files: FileIO | socket.socket) -> None:
        for file in files:
            with suppress(KeyError):
                self._watched.unregister(file)
            file.close()

    def _start(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        message, streams, *_ = socket.recv_fds(connection, LONGEST_ORDER, 3)
        process = self._fork(json.loads(message), streams, connection) if message else 0
        for stream in streams:
            os.close(stream)
        answer(connection, process)
        if process == 0:
            connection.close()
            return
        stage = Stage(process, end_of(process), connection)
        self._watch(stage.ends, self._ended, stage)
        self._watch(stage.connection, self._hung_up, stage)

    def _fork(self, order: Order, streams: list[int], connection: socket.socket) -> int:
        """Returns the process that runs the stage, or 0 if the order is declined."""
        if not self._accepts(order):
            return 0
        with warnings.catch_warnings():
            # Of threads that libraries have besides Python's: OpenBLAS and jemalloc start theirs anew in a fork, and
            # polars' only removes what did not fit into memory.
            warnings.simplefilter("ignore", DeprecationWarning)
            process = os.fork()
        if process == 0:
            self._forget(connection, *[key.fileobj for key in self._watched.get_map().values()])
            run(order, streams, self._before)
        return process

    def _ended(self, stage: Stage) -> None:
        status = os.waitstatus_to_exitcode(os.waitpid(stage.process, 0)[1])
        answer(stage.connection, status)
        self._forget(stage.ends, stage.connection)

    def _hung_up(self, stage: Stage) -> None:
        self._watched.unregister(stage.connection)
        os.kill(stage.process, signal.SIGKILL)


def answer(connection: socket.socket, number: int) -> None:
    """Send a number to whoever asked, if they still live."""
    with suppress(ConnectionError):
        connection.send(str(number).encode())


# --- in the fork ------------------------------------------------------------------------------------------------------


def run(order: Order, streams: list[int], before: Callable[[Order], None]) -> NoReturn:
    """Become the stage, and end as the script would end Python."""
    become(order, streams)
    before(order)
    interrupted, status = False, 0
    try:
        run_script(Path(sys.argv[0]).absolute())
    except SystemExit as end:
        status = exit_status(end)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        interrupted, status = isinstance(error, KeyboardInterrupt), 1
    # As Python does when it ends; taking all modules apart, which it does as well, takes a second.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    if interrupted:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status)


def become(order: Order, streams: list[int]) -> None:
    """Take over what a process gets from whoever starts it."""
    try:
        os.setpgid(0, order["group"])
    except OSError:  # all of the group has been killed meanwhile
        os._exit(1)
    for number in SIGNALS:
        default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in order["ignored"] else default)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    for text in (sys.stdout, sys.stderr):
        text.reconfigure(line_buffering=text.isatty())
    sys.argv = order["command"]
    sys.path[0] = os.path.abspath(os.path.dirname(sys.argv[0]))


def run_script(path: Path) -> None:
    """Run a file as Python's main module."""
    module = types.ModuleType("__main__")
    module.__file__ = str(path)
    sys.modules["__main__"] = module
    exec(compile(path.read_bytes(), path, "exec"), vars(module))


def exit_status(end: SystemExit) -> int:
    """What `sys.exit` was called with, as a process's status; a text goes to stderr."""
    if end.code is None or isinstance(end.code, int):
        return (end.code or 0) & 0xFF
    print(end.code, file=sys.stderr)
    return 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
