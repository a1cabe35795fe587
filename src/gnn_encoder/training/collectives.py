"""What ranks exchange in training: embeddings for cross-batch negatives, gradients, and sums."""

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gnn_encoder.core.distributed import rank, world_size
from gnn_encoder.models.device import device


class _Gather(torch.autograd.Function):
    """All ranks' rows, one rank after another. A row's gradients on all ranks are summed on the rank that owns it."""

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
    """Rows of every rank, for cross-batch negatives; gradients flow back to the rank that owns a row.

    *Shape:* (n, ...) with the same n on each rank -> (world_size * n, ...).
    """
    if world_size() == 1:
        return rows
    result: Tensor = _Gather.apply(rows)  # type: ignore[no-untyped-call]
    return result


def sum_gradients(parameters: list[nn.Parameter]) -> None:
    """Sum every parameter's gradient over the ranks: each rank's loss is its share of the whole batch's mean."""
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
    total = torch.tensor(value, dtype=torch.float64, device=device())
    dist.all_reduce(total)
    return float(total)
