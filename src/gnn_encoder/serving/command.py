"""`gnn-encoder serve`: runs the app with uvicorn until it is told to stop, and then answers what it has accepted."""

import errno
import logging
import os
import socket
import sys
from collections.abc import Sequence

from gnn_encoder.base.distributed import cores
from gnn_encoder.base.errors import UserError

CONNECTIONS = 1_000  # open at a time; one more is answered with status 503
DRAIN = 30  # seconds that requests in flight have after SIGTERM


def serve(*, host: str, port: int, systems: Sequence[str], hybrid: bool, allowed_hosts: Sequence[str]) -> None:
    """Serve the project in the current folder.

    Args:
        allowed_hosts: names by which clients may call the server. None given: on loopback those of loopback, else any.
    """
    # Half of the cores for the encoder and FAISS: threads that wait for each other must not fill those that answer.
    # Read when FAISS is loaded, and so before that.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores() // 2)))
    _check_free(host, port)
    try:
        import uvicorn

        from gnn_encoder.serving.app import LOOPBACK, create_app
    except ModuleNotFoundError as error:
        raise UserError(f"{error.name} is not installed; `bash scripts/environment.sh serve` adds it") from error
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)  # now: FAISS logs how it loads
    own = [f"[{host}]" if ":" in host else host, *LOOPBACK]
    hosts = [*own, *allowed_hosts] if allowed_hosts or own[0] in LOOPBACK else ["*"]
    uvicorn.run(
        create_app(systems, hybrid=hybrid, hosts=hosts),
        host=host,
        port=port,
        access_log=False,  # queries are people's own; /metrics counts requests
        server_header=False,
        timeout_graceful_shutdown=DRAIN,
        limit_concurrency=CONNECTIONS,
    )


def _check_free(host: str, port: int) -> None:
    """Look before models are loaded; uvicorn would tell in several lines, and late."""
    try:
        with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            pass
    except OSError as error:
        told = str(error.strerror).partition(" (")[0]  # in brackets Python says the address once more
        taken = "stop the other server, or take another --port or --host"
        cure = taken if error.errno == errno.EADDRINUSE else "give an address of this machine, or another --port"
        raise UserError(f"{host}:{port}: {told}; {cure}") from error
