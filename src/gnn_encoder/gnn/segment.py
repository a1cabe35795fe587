"""Sums and softmax over segments (rows that share a target), in PyTorch or in torch-scatter.

PyTorch is the default, since it is several times faster on CPU. torch-scatter is used if the environment variable
GNN_ENCODER_SCATTER is torch_scatter. Both give the same values and gradients. No other file may import torch_scatter.
"""

import importlib
import os
import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gnn_encoder.base.errors import UserError

SWITCH = "GNN_ENCODER_SCATTER"


def segment_sum(values: Tensor, index: Tensor, n: int) -> Tensor:
    """Sum of the rows of each segment, which `index` names in any order; zeros for a segment without rows.

    *Shape:* values (E, ...), index (E,) int64 -> (n, ...).
    """
    scatter = _torch_scatter()
    if scatter is None:
        return values.new_zeros(n, *values.shape[1:]).index_add(0, index, values)
    total: Tensor = scatter.scatter_sum(values, index, dim=0, dim_size=n)
    return total


def segment_softmax(logits: Tensor, index: Tensor, n: int) -> Tensor:
    """Softmax over the rows of each segment, separately in each column.

    The segment's maximum is subtracted first, so that no exponential overflows. The result does not depend on the
    maximum, and so no gradient flows through it.

    *Shape:* logits (E, heads), index (E,) int64 below n -> (E, heads).
    """
    scatter, detached = _torch_scatter(), logits.detach()
    if scatter is None:
        lowest = detached.new_full((n, detached.shape[1]), -torch.inf)
        largest = lowest.scatter_reduce(0, index.unsqueeze(1).expand_as(detached), detached, "amax")
    else:
        largest = scatter.scatter_max(detached, index, dim=0, dim_size=n)[0]
    weights = (logits - largest.index_select(0, index)).exp()
    total = segment_sum(weights, index, n)
    return weights / total.index_select(0, index)


def segment_weighted_sum(weights: Tensor, values: Tensor, source: Tensor, target: Tensor, n: int) -> Tensor:
    """For each target the sum, over its edges, of the edge's weight times the value of its source, head by head.

    On CPU this is a sparse matrix product, forward and backward, which needs no (E, heads, c) tensor and is more than
    ten times faster than gathering the sources' values. On other devices, and with torch-scatter, these are gathered.

    Each edge reads the row `source` of `values` and adds to the row `target` of the result; edges have any order.

    *Shape:* weights (E, heads), values (s, heads, c), source and target (E,) int64 -> (n, heads, c).
    """
    if values.device.type == "cpu" and _torch_scatter() is None:
        result: Tensor = _SparseProduct.apply(weights, values, source, target, n)  # type: ignore[no-untyped-call]
        return result
    return segment_sum(weights.unsqueeze(-1) * values.index_select(0, source), target, n)


class _SparseProduct(torch.autograd.Function):
    """`segment_weighted_sum` as one product A V, with A the (n * heads, s * heads) matrix of edge weights.

    Row i * heads + h of A holds the weights of head h on the edges of target i, in the columns source * heads + h. In
    this order neither values nor result have to be moved in memory. With G the gradient of the result, the gradient of
    A is G V^T at the entries that A has, and the gradient of V is A^T G.
    """

    @staticmethod
    def forward(ctx: Any, weights: Tensor, values: Tensor, source: Tensor, target: Tensor, n: int) -> Tensor:
        places, matrix = _sparse(weights, source, target, (n, len(values)))
        ctx.save_for_backward(weights, values, source, target, places, matrix)
        return (matrix @ values.flatten(0, 1)).view(n, *values.shape[1:])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        weights, values, source, target, places, matrix = ctx.saved_tensors
        weights_gradient = values_gradient = None
        flat = gradient.flatten(0, 1).contiguous()
        if ctx.needs_input_grad[0]:
            entries = torch.sparse.sampled_addmm(matrix, flat, values.flatten(0, 1).contiguous().T, beta=0.0)
            weights_gradient = entries.values()[places]
        if ctx.needs_input_grad[1]:
            transposed = _sparse(weights, target, source, (len(values), len(gradient)))[1]
            values_gradient = (transposed @ flat).view(values.shape)
        return weights_gradient, values_gradient, None, None, None


def _sparse(weights: Tensor, source: Tensor, target: Tensor, shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """The place of each edge and head among the entries of A, and the matrix A in CSR layout.

    *Shape:* (E, heads), (E,), (E,) -> (E, heads), (n * heads, s * heads).
    """
    heads = torch.arange(weights.shape[1], device=target.device)
    count = torch.bincount(target, minlength=shape[0])
    first = torch.cumsum(count, dim=0) - count
    order = torch.argsort(target, stable=True)
    within = torch.empty_like(order)  # number of the edge among the edges of its target
    within[order] = torch.arange(len(order), device=target.device) - first[target[order]]
    # The entries of a target are all its edges for head 0, then all its edges for head 1, and so on.
    places = (first[target] * len(heads) + within).unsqueeze(1) + count[target].unsqueeze(1) * heads
    columns, entries = torch.empty_like(places).flatten(), torch.empty_like(weights).flatten()
    columns[places] = source.unsqueeze(1) * len(heads) + heads
    entries[places] = weights
    ends = torch.cumsum(count.repeat_interleave(len(heads)), dim=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse")  # PyTorch warns that its CSR layout is in beta
        size = (shape[0] * len(heads), shape[1] * len(heads))
        return places, torch.sparse_csr_tensor(F.pad(ends, (1, 0)), columns, entries, size, check_invariants=False)


def _torch_scatter() -> Any | None:
    """The module if it was chosen, else None."""
    name = os.environ.get(SWITCH) or "torch"
    if name not in ("torch", "torch_scatter"):
        raise UserError(f"{SWITCH} is {name!r}: must be torch or torch_scatter; correct or unset it")
    try:
        return importlib.import_module(name) if name == "torch_scatter" else None
    except ImportError as error:
        told = f"{SWITCH} is {name!r}, which is not installed: unset it, or install the gpu extra"
        raise UserError(told) from error
