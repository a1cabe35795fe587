#!/usr/bin/env python3
"""Runs a stage script as `python` would, in a fork of the stage server: `scripts/python` is told to start this instead.

STAGE_SERVER=SOCKET forked_python.py stages/NAME.py [ARGUMENT...]
"""

import json
import os
import socket
import sys
from typing import Any


def run(server: str, order: dict[str, Any], stdout: int, stderr: int) -> int:
    """Have an order done; see `stage_server`. Returns the exit status, negative for a signal."""
    order = order | {"group": os.getpgrp()}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(server)
        socket.send_fds(connection, [json.dumps(order).encode()], [stdout, stderr])
        return int(connection.recv(16))


if __name__ == "__main__":
    sys.exit(run(os.environ["STAGE_SERVER"], {"folder": os.getcwd(), "command": sys.argv[1:]}, 1, 2))
