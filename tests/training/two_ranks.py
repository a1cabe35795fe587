"""What one of two processes does with its half of a batch, and what must come of it; `dual_cross` starts both."""

from typing import Any

import numpy as np
import torch
from torch import nn

from gnn_encoder.core import distributed
from gnn_encoder.training.collectives import gather, sum_gradients, sum_value
from gnn_encoder.training.contrastive import batch_loss, local_share
from gnn_encoder.training.examples import Examples, Ragged, TrainingBatch

LOSSES = {"query-centric": 0.0, "PAIR's": 0.3}  # alpha


def examples() -> Examples:
    """6 queries over 10 passages; query 0 is also judged with 9, which is the hard negative of query 3."""
    one_each = np.arange(7)
    known = np.sort([*(q * 10 + q for q in range(6)), 9])
    lists = Ragged(np.arange(6), one_each)
    return Examples(queries=np.arange(6), positives=lists, negatives=lists, known=known, n_passages=10)


def batch_of(items: np.ndarray) -> TrainingBatch:
    """Each query with its own passage, and as hard negative a fixed one."""
    negatives = np.array([6, 7, 8, 9, 0, 7])
    return TrainingBatch(items, np.concatenate([items, negatives[items]]))


def models() -> nn.ModuleDict:
    torch.manual_seed(0)
    return nn.ModuleDict(
        {"query": nn.Linear(4, 3, bias=False).double(), "passage": nn.Linear(4, 3, bias=False).double()}
    )


def inputs(rows: np.ndarray, of: int) -> torch.Tensor:
    return torch.sin(torch.from_numpy(rows)[:, None] * 1.3 + torch.arange(4) * 0.7 + of).double()


def loss_of(model: nn.ModuleDict, batch: TrainingBatch, alpha: float = 0.0) -> torch.Tensor:
    queries, passages = model["query"](inputs(batch.queries, 0)), model["passage"](inputs(batch.passages, 1))
    return batch_loss(queries, passages, batch, examples(), 2.0, alpha=alpha)


def exchange() -> dict[str, Any]:
    """What one of the processes finds with its half of the batch."""
    unused = nn.Parameter(torch.zeros(2))
    losses, gradients = {}, {}
    for name, alpha in LOSSES.items():
        model = models()
        loss = loss_of(model, batch_of(local_share(np.arange(7))), alpha)  # the seventh is left out
        loss.backward()
        parameters = list(model.parameters())
        sum_gradients([*parameters, unused])
        losses[name] = sum_value(loss.item())
        gradients[name] = [p.grad for p in parameters]
    rows = gather(torch.full((2,), distributed.rank()))
    return {"losses": losses, "gradients": gradients, "unused": unused.grad, "rows": rows}


def check(found: dict[str, Any]) -> None:
    """Loss and gradients are those of one big batch; a parameter that no process used has a zero gradient."""
    for name, alpha in LOSSES.items():
        model = models()
        loss = loss_of(model, batch_of(np.arange(6)), alpha)
        loss.backward()
        assert abs(found["losses"][name] - loss.item()) < 1e-12
        for one, parameter in zip(found["gradients"][name], model.parameters(), strict=True):
            assert parameter.grad is not None and float(parameter.grad.abs().max()) > 1e-4
            torch.testing.assert_close(one, parameter.grad, rtol=0, atol=1e-9)
    assert found["unused"].tolist() == [0, 0]
    assert found["rows"].tolist() == [0, 0, 1, 1], "in the order of ranks"
