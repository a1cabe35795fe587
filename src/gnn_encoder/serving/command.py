"""`gnn-encoder serve`: runs the app with uvicorn until it is told to stop, and then answers what it has accepted."""

import errno
import ipaddress
import logging
import os
import socket
import sys
from collections.abc import Sequence
from math import ceil

import uvicorn

from gnn_encoder.core.errors import UserError
from gnn_encoder.serving.app import LOOPBACK, create_app
from gnn_encoder.serving.settings import Limits


def serve(
    *,
    host: str,
    port: int,
    systems: Sequence[str],
    hybrid: bool,
    explain: bool,
    allowed_hosts: Sequence[str],
    limits: Limits,
) -> None:
    """Serve the project in the current folder.

    Args:
        allowed_hosts: names by which clients may call the server. None given: on loopback those of loopback, else any.

    Raises:
        UserError: the address cannot be had, or as `create_app`.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    own = [f"[{host}]" if ":" in host else host, *LOOPBACK]
    hosts = [*own, *allowed_hosts] if allowed_hosts or _is_loopback(host) else None
    _check_free(host, port)
    app = create_app(systems, hybrid=hybrid, explain=explain, hosts=hosts, limits=limits)
    uvicorn.run(
        app,
        host=host,
        port=port,
        access_log=False,  # queries are people's own; /metrics counts requests
        log_level="info",
        server_header=False,
        timeout_graceful_shutdown=ceil(limits.drain),
    )


def _check_free(host: str, port: int) -> None:
    """Look before models are loaded; uvicorn would tell in several lines, and late."""
    try:
        with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            pass
    except OSError as error:
        told = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror  # else a name is unknown
        taken = error.errno in (errno.EADDRINUSE, errno.EACCES)
        cure = "stop the other server, or take another --port" if taken else "--host must be an address of this machine"
        raise UserError(f"{host}:{port}: {told}; {cure}") from error


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return host == "localhost"
