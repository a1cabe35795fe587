"""Two processes of one group on this machine, as torchrun starts them, but forked from one that has loaded torch."""

import os
import runpy
import socket
import subprocess
import sys
from pathlib import Path


def run_two(script: Path, folder: Path) -> None:
    """Run `script folder` as ranks 0 and 1 with gloo; both must end well."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    group = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": "2",
        "CUDA_VISIBLE_DEVICES": "",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, __file__, str(script), str(folder)]
    done = subprocess.run(command, env=os.environ | group, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def rank(number: int, script: str, folder: str) -> None:
    """Be one of them."""
    os.environ |= {"RANK": str(number), "LOCAL_RANK": str(number)}
    sys.argv = [script, folder]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    from torch.multiprocessing import start_processes

    runpy.run_path(sys.argv[1])  # loads what both need
    start_processes(rank, args=tuple(sys.argv[1:]), nprocs=2, start_method="fork")
