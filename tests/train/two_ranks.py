"""What one of two processes does with its part of a batch, and what must come of it; `dual_cross` starts both."""

from typing import Any

import numpy as np
import torch
from torch import nn

from gnn_encoder.base import distributed
from gnn_encoder.train.dev import shared_rows
from gnn_encoder.train.dual_encoder import batch_loss, gather, local_part, local_share
from gnn_encoder.train.examples import Examples, Ragged, TrainingBatch
from gnn_encoder.train.loop import sum_gradients, sum_value

ITEMS = np.arange(5)  # three of them are the first process's, two the second's
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
    asked, places = local_part(batch)
    queries = model["query"](inputs(batch.queries[asked], 0))
    passages = model["passage"](inputs(batch.passages[places], 1))
    return batch_loss(queries, passages, batch, examples(), 2.0, alpha=alpha)


def exchange() -> dict[str, Any]:
    """What one of the processes finds with its part of the batch."""
    unused = nn.Parameter(torch.zeros(2))
    losses, gradients = {}, {}
    for name, alpha in LOSSES.items():
        model = models()
        loss = loss_of(model, batch_of(ITEMS), alpha)
        loss.backward()
        parameters = list(model.parameters())
        sum_gradients([*parameters, unused])
        losses[name] = sum_value(loss.item())
        gradients[name] = [p.grad for p in parameters]
    places = local_share(np.array([3, 0, 1, 2, 4]))
    rows = gather(torch.full((len(places),), distributed.rank() + 1), places, 5)
    pool = shared_rows(np.arange(5), 2, 1, lambda part: torch.from_numpy(part)[:, None] / 8 + distributed.rank())
    return {"losses": losses, "gradients": gradients, "unused": unused.grad, "rows": rows, "pool": pool}


def check(found: dict[str, Any]) -> None:
    """Loss and gradients are those of one big batch; a parameter that no process used has a zero gradient."""
    for name, alpha in LOSSES.items():
        model = models()
        loss = loss_of(model, batch_of(ITEMS), alpha)
        loss.backward()
        assert abs(found["losses"][name] - loss.item()) < 1e-12
        for one, parameter in zip(found["gradients"][name], model.parameters(), strict=True):
            assert parameter.grad is not None and float(parameter.grad.abs().max()) > 1e-4
            torch.testing.assert_close(one, parameter.grad, rtol=0, atol=1e-9)
    assert found["unused"].tolist() == [0, 0]
    assert found["rows"].tolist() == [1, 1, 2, 1, 2], "each in its place"
    assert found["pool"][:, 0].tolist() == [0, 1 / 8, 1 + 2 / 8, 1 + 3 / 8, 4 / 8], "windows in turn"
