"""Sums and softmax over segments (rows that share a target), in PyTorch or in torch-scatter.

PyTorch is the default: on CPU it is several times faster. torch-scatter is used where it is installed and chosen, by
`backend="torch_scatter"` or by the environment variable GNN_ENCODER_SCATTER=torch_scatter. Both give the same values
and gradients. This is the one file that may import torch_scatter.
"""

import importlib
import os
import warnings
from typing import Any, Literal

import torch
from torch import Tensor

from gnn_encoder.errors import UserError

Backend = Literal["torch", "torch_scatter"]
SWITCH = "GNN_ENCODER_SCATTER"


def segment_sum(values: Tensor, index: Tensor, n: int, *, backend: Backend | None = None) -> Tensor:
    """Sum of the rows of each segment; zeros for a segment without rows.

    Args:
        values: *Shape:* (E, ...).
        index: the segment of each row, in any order. *Shape:* (E,) int64.
        n: number of segments.
        backend: None is what GNN_ENCODER_SCATTER says, else PyTorch.

    *Shape:* (n, ...).
    """
    if _uses_torch_scatter(backend):
        total: Tensor = _torch_scatter().scatter_sum(values, index, dim=0, dim_size=n)
        return total
    return values.new_zeros(n, *values.shape[1:]).index_add(0, index, values)


def segment_softmax(logits: Tensor, index: Tensor, n: int, *, backend: Backend | None = None) -> Tensor:
    """Softmax over the rows of each segment, apart for each column.

    The segment's maximum is taken off first, so no exponential overflows. The result does not depend on it, so no
    gradient flows through it.

    Args:
        logits: *Shape:* (E, heads).
        index: the segment of each row, in any order. *Shape:* (E,) int64.
        n: number of segments.
        backend: as in `segment_sum`.

    *Shape:* (E, heads).
    """
    largest = _segment_max(logits.detach(), index, n, backend)
    weights = (logits - largest.index_select(0, index)).exp()
    total = segment_sum(weights, index, n, backend=backend)
    return weights / total.index_select(0, index)


def segment_weighted_sum(
    weights: Tensor, values: Tensor, source: Tensor, target: Tensor, n: int, *, backend: Backend | None = None
) -> Tensor:
    """Sum over the edges of each target: weight of the edge times value of its source, apart for each head.

    On CPU this is a sparse matrix product, forward and backward: no (E, heads, c) tensor is made, and it is more than
    ten times faster than gathering the sources. On other devices, and with torch-scatter, the sources are gathered.

    Args:
        weights: *Shape:* (E, heads).
        values: *Shape:* (s, heads, c).
        source: row of `values` that each edge reads. *Shape:* (E,) int64.
        target: row of the result that each edge adds to, in any order. *Shape:* (E,) int64.
        n: number of targets.
        backend: as in `segment_sum`.

    *Shape:* (n, heads, c).
    """
    if values.device.type == "cpu" and not _uses_torch_scatter(backend):
        result: Tensor = _SparseProduct.apply(weights, values, source, target, n)  # type: ignore[no-untyped-call]
        return result
    return segment_sum(weights.unsqueeze(-1) * values.index_select(0, source), target, n, backend=backend)


class _SparseProduct(torch.autograd.Function):
    """`segment_weighted_sum` as A_h V_h, with A_h the (n, s) matrix of one head's edge weights in CSR."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, values: Tensor, source: Tensor, target: Tensor, n: int) -> Tensor:
        order, pointers = _rows(target, n)
        ctx.save_for_backward(weights, values, source, target, order, pointers)
        return _multiply(order, pointers, source, weights, values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        weights, values, source, target, order, pointers = ctx.saved_tensors
        weights_gradient = values_gradient = None
        if ctx.needs_input_grad[0]:
            weights_gradient = _scores(order, pointers, source, gradient, values)
        if ctx.needs_input_grad[1]:
            values_gradient = _multiply(*_rows(source, len(values)), target, weights, gradient)  # A_h^T G_h
        return weights_gradient, values_gradient, None, None, None


def _multiply(order: Tensor, pointers: Tensor, columns: Tensor, weights: Tensor, values: Tensor) -> Tensor:
    """A_h V_h for each head. *Shape:* (E,), (n + 1,), (E,), (E, heads), (s, heads, c) -> (n, heads, c)."""
    columns, weights, shape = columns[order], weights[order], (len(pointers) - 1, len(values))
    heads = [
        _csr(pointers, columns, weights[:, h].contiguous(), shape) @ values[:, h].contiguous()
        for h in range(weights.shape[1])
    ]
    return torch.stack(heads, dim=1)


def _scores(order: Tensor, pointers: Tensor, columns: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Each edge's entry of L_h R_h^T. *Shape:* (E,), (n + 1,), (E,), (n, heads, c), (s, heads, c) -> (E, heads)."""
    pattern = _csr(pointers, columns[order], left.new_zeros(len(order)), (len(left), len(right)))
    scores = left.new_empty(len(order), left.shape[1])
    for h in range(left.shape[1]):
        head = torch.sparse.sampled_addmm(pattern, left[:, h].contiguous(), right[:, h].contiguous().T, beta=0.0)
        scores[order, h] = head.values()
    return scores


def _rows(rows: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The order that sorts edges by row, and where each row then starts. *Shape:* (E,) -> (E,), (n + 1,)."""
    pointers = rows.new_zeros(n + 1)
    torch.cumsum(torch.bincount(rows, minlength=n), dim=0, out=pointers[1:])
    return torch.argsort(rows, stable=True), pointers


def _csr(pointers: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse")  # PyTorch calls the CSR layout, years old, a beta
        return torch.sparse_csr_tensor(pointers, columns, values, shape, check_invariants=False)


def _segment_max(values: Tensor, index: Tensor, n: int, backend: Backend | None) -> Tensor:
    if _uses_torch_scatter(backend):
        largest: Tensor = _torch_scatter().scatter_max(values, index, dim=0, dim_size=n)[0]
        return largest
    rows = index.view(-1, *[1] * (values.dim() - 1)).expand_as(values)
    return values.new_full((n, *values.shape[1:]), -torch.inf).scatter_reduce(0, rows, values, "amax")


def _uses_torch_scatter(backend: Backend | None) -> bool:
    name = backend or os.environ.get(SWITCH) or "torch"
    if name not in ("torch", "torch_scatter"):
        raise UserError(f"{SWITCH} is {name!r}: must be torch or torch_scatter; correct or unset it")
    return name == "torch_scatter"


def _torch_scatter() -> Any:
    try:
        return importlib.import_module("torch_scatter")
    except ImportError as error:
        raise UserError(
            f"{SWITCH} is 'torch_scatter', which is not installed: unset it, or install the gpu extra"
        ) from error
