"""torch.distributed for processes that torchrun started, and progress. A process alone is a group of one, and waits for
nobody.

Stages without a model use this module too. Importing torch takes seconds, so it is imported only under torchrun or
where another module has imported it already.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from tqdm import tqdm as _Bar

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


@contextmanager
def alone() -> Iterator[None]:
    """Surround what the first rank runs while the other ranks wait: within it, that rank is a group of one."""
    global _is_alone
    _is_alone = True
    try:
        yield
    finally:
        _is_alone = False


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


class tqdm(_Bar):  # type: ignore[type-arg]  # noqa: N801
    """tqdm's bar; where stderr is no terminal, a plain line every half minute instead, unless `disable` says more.

    Of several ranks the first one shows it.
    """

    EVERY = 30.0  # seconds between two lines where there is no terminal

    def __init__(self, *args: Any, **settings: Any) -> None:
        default = None if is_first() else True
        self.plain = settings.setdefault("disable", default) is None and not sys.stderr.isatty()
        self.began = time.time()
        self.due = self.began + self.EVERY
        super().__init__(*args, **settings | ({"disable": False, "delay": self.EVERY} if self.plain else {}))

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Show how far it is."""
        if not self.plain:
            super().display(msg, pos)
        elif time.time() >= self.due:
            self.due += self.EVERY
            of, took = f" of {self.total:,.0f}" if self.total else "", time.time() - self.began
            self.fp.write(f"{self.desc.removesuffix(': ')}: {self.n:,.0f}{of} {self.unit.strip()}, {took:.0f} s\n")
            self.fp.flush()

    def close(self) -> None:
        """End; where there is no terminal, without a last line."""
        if self.plain:
            self.delay = float("inf")
        super().close()
