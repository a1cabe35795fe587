"""torch.distributed as torchrun starts it; one process is a group of one, and every call is then a no-op."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn


@contextmanager
def session() -> Iterator[None]:
    """Join the process group when torchrun started this process; leave it at the end."""
    if torch.cuda.is_available():
        _sum_in_fixed_order()
    if "LOCAL_RANK" not in os.environ or world_size() > 1:
        yield
        return
    use_gpu = torch.cuda.is_available()
    if use_gpu:
        torch.cuda.set_device(local_rank())
    dist.init_process_group("nccl" if use_gpu else "gloo", timeout=timedelta(hours=4))
    try:
        yield
    finally:
        dist.destroy_process_group()


def _sum_in_fixed_order() -> None:
    """Same seed, same GPU, same numbers: CUDA's index_add and matrix products add up in any order otherwise."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def rank() -> int:
    """This process's number in the group."""
    return dist.get_rank() if dist.is_initialized() else 0


def local_rank() -> int:
    """This process's number on its machine."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def world_size() -> int:
    """Processes in the group."""
    return dist.get_world_size() if dist.is_initialized() else 1


def is_first() -> bool:
    """Whether this process writes what is written once."""
    return rank() == 0


def barrier() -> None:
    """Wait for the whole group."""
    if world_size() > 1:
        dist.barrier()


class _Gather(torch.autograd.Function):
    """All ranks' rows, one after another; the gradient that any rank has for a row comes back to its owner."""

    @staticmethod
    def forward(ctx, rows: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.n_rows = len(rows)
        parts = [torch.empty_like(rows) for _ in range(world_size())]
        dist.all_gather(parts, rows.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        first = rank() * ctx.n_rows
        return gradient[first : first + ctx.n_rows]


def gather(rows: Tensor) -> Tensor:
    """Rows of every rank, differentiable: cross-batch negatives.

    *Shape:* (n, ...) on each rank, the same n -> (world_size * n, ...).
    """
    if world_size() == 1:
        return rows
    if rows.requires_grad:
        result: Tensor = _Gather.apply(rows)  # type: ignore[no-untyped-call]
        return result
    parts = [torch.empty_like(rows) for _ in range(world_size())]
    dist.all_gather(parts, rows.contiguous())
    return torch.cat(parts)


def sum_gradients(parameters: list[nn.Parameter]) -> None:
    """Add up every parameter's gradient over the ranks (each rank's loss is its share of the batch's sum)."""
    if world_size() == 1:
        return
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad)


def sum_value(value: float) -> float:
    """Sum of a number over the ranks."""
    if world_size() == 1:
        return value
    total = torch.tensor(value, dtype=torch.float64)
    total = total.cuda() if torch.cuda.is_available() else total
    dist.all_reduce(total)
    return float(total)
