"""torch.distributed as torchrun starts it; one process is a group of one, and every call is then a no-op.

Stages without a model import this too: torch, seconds of a start, is imported where there is a group or a GPU.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

_is_alone = False


@contextmanager
def session() -> Iterator[None]:
    """Join the process group when torchrun started this process; leave it at the end."""
    if "LOCAL_RANK" not in os.environ and "torch" not in sys.modules:
        yield
        return
    import torch
    import torch.distributed as dist

    use_gpu = torch.cuda.is_available()
    if use_gpu:
        _sum_in_fixed_order()
    if "LOCAL_RANK" not in os.environ or world_size() > 1:
        yield
        return
    if use_gpu:
        torch.cuda.set_device(local_rank())
    dist.init_process_group("nccl" if use_gpu else "gloo", timeout=timedelta(hours=4))
    try:
        yield
    finally:
        dist.destroy_process_group()


def _sum_in_fixed_order() -> None:
    """Same seed, same GPU, same numbers: CUDA's index_add and matrix products add up in any order otherwise."""
    import torch

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


@contextmanager
def alone() -> Iterator[None]:
    """A block that the first rank runs while the others wait for it: in it that rank is a group of one."""
    global _is_alone
    _is_alone = True
    try:
        yield
    finally:
        _is_alone = False


def _group() -> Any:
    """torch.distributed where this process is one of a group; None: it is alone."""
    if "torch" not in sys.modules or _is_alone:
        return None
    import torch.distributed as dist

    return dist if dist.is_initialized() else None


def rank() -> int:
    """This process's number in the group."""
    group = _group()
    return int(group.get_rank()) if group else 0


def local_rank() -> int:
    """This process's number on its machine."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def world_size() -> int:
    """Processes in the group."""
    group = _group()
    return int(group.get_world_size()) if group else 1


def is_first() -> bool:
    """Whether this process writes what is written once."""
    return rank() == 0


def barrier() -> None:
    """Wait for the whole group."""
    if world_size() > 1:
        _group().barrier()
