"""What ranks exchange: a batch's embeddings for cross-batch negatives, gradients, sums, and embeddings of a pool."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gnn_encoder.base.distributed import rank, world_size
from gnn_encoder.base.matrix import Matrix, Rows
from gnn_encoder.text.device import device


class _Gather(torch.autograd.Function):
    """All ranks' rows in their places. A row's gradients on all ranks are summed on the rank that owns it."""

    @staticmethod
    def forward(ctx, rows: Tensor, places: Tensor, count: int) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.places = places
        everything = rows.new_zeros(count, *rows.shape[1:])
        everything[places] = rows
        dist.all_reduce(everything)  # every place is zero on all ranks but one: a sum of uneven shares, in order
        return everything

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[no-untyped-def]
        total = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total[ctx.places], None, None


def gather(rows: Tensor, places: Rows, count: int) -> Tensor:
    """Rows of every rank, for cross-batch negatives; gradients flow back to the rank that owns a row.

    Args:
        places: where this rank's rows stand among all; each place is of one rank.

    *Shape:* rows (n, ...), places (n,) -> (count, ...).
    """
    if world_size() == 1:
        return rows
    result: Tensor = _Gather.apply(rows, torch.from_numpy(places), count)  # type: ignore[no-untyped-call]
    return result


def shared_rows(rows: Rows, window: int, columns: int, encode: Callable[[Rows], Matrix | Tensor]) -> Tensor:
    """What `encode` makes of some rows, `window` at a time, which ranks take in turn. *Shape:* (n,) -> (n, columns).

    A window is encoded as a whole whatever the number of ranks, so that not a bit depends on it.
    """
    found = torch.zeros(len(rows), columns, device=device())
    for first in range(rank() * window, len(rows), world_size() * window):
        found[first : first + window] = torch.as_tensor(encode(rows[first : first + window]))
    if world_size() > 1:
        dist.all_reduce(found)
    return found


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
