"""torch.distributed for processes that torchrun started. A process alone is a group of one, and waits for nobody.

Stages without a model use this module too. Importing torch takes seconds, so it is imported only under torchrun or
where another module has imported it already.
"""

import itertools
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from tqdm import tqdm as _Bar

_is_alone = False
_shard: tuple[int, int] | None = None  # (i, n): this process is alone, and does every n-th window from the i-th on
_store: Any = None  # where the ranks count
_queues = itertools.count()


@contextmanager
def session() -> Iterator[None]:
    """Join the process group when torchrun started this process; leave it at the end."""
    if "LOCAL_RANK" not in os.environ and "torch" not in sys.modules:
        yield
        return
    import torch
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    use_gpu = torch.cuda.is_available()
    if use_gpu:
        _sum_in_fixed_order()
    if "LOCAL_RANK" not in os.environ or dist.is_initialized():
        yield
        return
    if use_gpu:
        torch.cuda.set_device(local_rank())
    global _store
    _store, number, size = next(rendezvous("env://"))
    how = {"store": _store, "rank": number, "world_size": size, "timeout": timedelta(hours=4)}
    dist.init_process_group("nccl" if use_gpu else "gloo", **how)
    try:
        yield
    finally:
        dist.destroy_process_group()


def _sum_in_fixed_order() -> None:
    """Make the same seed give the same numbers on a GPU: CUDA otherwise adds up in an order that varies."""
    import torch

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


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


@contextmanager
def independent(shard: tuple[int, int] | None) -> Iterator[None]:
    """Within it this process does shard `(i, n)` of the windows, 1 <= i <= n; None: all that nobody else does."""
    global _shard
    _shard = shard
    try:
        yield
    finally:
        _shard = None


def is_shard() -> bool:
    """Whether this process does a part of the windows, and leaves it to others to finish what is made of all."""
    return _shard is not None


def handed_out(windows: Sequence[int]) -> Iterator[int]:
    """Those of some windows that this process is to do; the same `windows` wait on every rank.

    A rank gets the next one when it asks for one, so that a slow rank gets fewer. A shard has the same windows whatever
    the others have done.
    """
    if _shard is not None:
        yield from (number for number in windows if number % _shard[1] == _shard[0] - 1)
    elif world_size() == 1:
        yield from windows
    else:
        queue = f"windows of pass {next(_queues)}"
        while (place := _store.add(queue, 1) - 1) < len(windows):
            yield windows[place]


def process_name() -> str:
    """What files of this process alone are called by."""
    return str(rank()) if _shard is None else "shard-{}-of-{}".format(*_shard)


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


EVERY = 30.0  # seconds between two lines where there is no terminal


class tqdm(_Bar):  # type: ignore[type-arg]  # noqa: N801
    """tqdm's bar; where stderr is no terminal, a plain line every half minute instead, unless `disable` says more.

    Of several ranks the first one shows it.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        default = None if is_first() else True
        self.plain = settings.setdefault("disable", default) is None and not sys.stderr.isatty()
        self.began = time.time()
        self.due = self.began + EVERY
        super().__init__(*args, **settings | ({"disable": False, "delay": EVERY} if self.plain else {}))

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Show how far it is."""
        if not self.plain:
            super().display(msg, pos)
        elif time.time() >= self.due:
            self.due += EVERY
            of, took = f" of {self.total:,.0f}" if self.total else "", time.time() - self.began
            self.fp.write(f"{self.desc.removesuffix(': ')}: {self.n:,.0f}{of} {self.unit.strip()}, {took:.0f} s\n")
            self.fp.flush()

    def close(self) -> None:
        """End; where there is no terminal, without a last line."""
        if self.plain:
            self.delay = float("inf")
        super().close()
