"""torch.distributed for processes that torchrun started, and progress. A process alone is a group of one.

Stages without a model use this module too. Importing torch takes seconds, so it is imported only under torchrun or
where another module has imported it already.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from tqdm import tqdm as _bar

_is_alone = False


@contextmanager
def session() -> Iterator[None]:
    """Join the process group when torchrun started this process; leave it at the end."""
    if "LOCAL_RANK" not in os.environ and "torch" not in sys.modules:
        yield
        return
    import torch
    import torch.distributed as dist

    if use_gpu := torch.cuda.is_available():
        # The same seed must give the same numbers on a GPU: CUDA otherwise adds up in an order that varies.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if "LOCAL_RANK" not in os.environ or dist.is_initialized():
        yield
        return
    if use_gpu:
        torch.cuda.set_device(local_rank())
    dist.init_process_group("nccl" if use_gpu else "gloo", timeout=timedelta(hours=4))
    try:
        yield
    finally:
        dist.destroy_process_group()


def _group() -> Any:
    """torch.distributed, or None where this process is alone."""
    if "torch" not in sys.modules or _is_alone:
        return None
    import torch.distributed as dist

    return dist if dist.is_initialized() else None


def cores() -> int:
    """How many cores this process may use, which in a container are often fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
    """Whether this process is the one that writes the files that all ranks share."""
    return rank() == 0


def barrier() -> None:
    """Wait for the whole group."""
    if world_size() > 1:
        _group().barrier()


def on_first(work: Callable[[], None]) -> None:
    """Have the first rank do some work, within which it is a group of one, while the others wait."""
    global _is_alone
    if is_first():
        _is_alone = True
        try:
            work()
        finally:
            _is_alone = False
    barrier()


def tqdm(*args: Any, **settings: Any) -> Any:
    """Tqdm's bar, which the first rank shows; where stderr is no terminal, only every half minute."""
    rarely = {} if sys.stderr.isatty() else dict.fromkeys(("mininterval", "maxinterval", "delay"), 30)
    return _bar(*args, **{"disable": not is_first()} | settings | rarely)
