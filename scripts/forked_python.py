"""Runs a stage's script as `python` would, in a fork of the stage server, or with `python` where that cannot be.

    GNN_ENCODER_SERVER=SOCKET python forked_python.py PYTHON stages/NAME.py [ARGUMENT...]

`scripts/python` calls this where there is a server: see `stage_server.py`. It imports little, so that it starts fast.
"""

import json
import os
import signal
import socket
import sys
from typing import Any, NoReturn

SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)  # that whoever starts a process may ignore


def main(python: str, *command: str) -> NoReturn:
    """End as the script ends."""
    ignored = [number for number in SIGNALS if signal.getsignal(number) == signal.SIG_IGN]
    order = {
        "folder": os.getcwd(),
        "command": command,
        "environment": dict(os.environ),
        "ignored": ignored,
        "process": os.getpid(),
        "group": os.getpgrp(),
    }
    if signal.SIGINT not in ignored:
        # Ctrl-C reaches the stage too, whose end this waits for. A handler, since `execv` would pass on SIG_IGN.
        signal.signal(signal.SIGINT, lambda *_: None)
    status = ask(os.environ["GNN_ENCODER_SERVER"], order, [0, 1, 2])
    if status is None:
        os.execv(python, [python, *command])
    end(status)


def ask(server: str, order: dict[str, Any], streams: list[int]) -> int | None:
    """Have a stage run.

    Args:
        server: the socket.
        order: what `stage_server.py` says.
        streams: the files that become stdin, stdout and stderr.

    Returns:
        The exit status, negative for a signal, or None where the server does not run the stage.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        try:
            connection.connect(server)
            socket.send_fds(connection, [json.dumps(order).encode()], streams)
            process = int(connection.recv(16) or 0)
        except OSError:  # it has not loaded everything yet, or has ended
            return None
        if process == 0:
            return None
        status = connection.recv(16)
    if not status:
        os.kill(process, signal.SIGKILL)
        sys.exit("error: the stage server was killed, and the stage with it; run it again: it goes on where it was")
    return int(status)


def end(status: int) -> NoReturn:
    """End with a status, or by the signal that a negative one names."""
    if status < 0:
        if -status != signal.SIGKILL:  # which has no handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


if __name__ == "__main__":
    main(*sys.argv[1:])
