"""One of two processes of test_distributed.py: its half of a batch, cross-batch loss, summed gradients."""

import sys
from pathlib import Path

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


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    with distributed.session():
        assert distributed.world_size() == 2 and distributed.is_first() == (distributed.rank() == 0)
        unused = nn.Parameter(torch.zeros(2))
        losses, gradients = {}, {}
        for name, alpha in LOSSES.items():
            model = models()
            loss = loss_of(model, batch_of(local_share(np.arange(7))), alpha)  # the seventh is left out
            loss.backward()
            parameters = list(model.parameters())
            sum_gradients([*parameters, unused])
            distributed.barrier()
            losses[name] = sum_value(loss.item())
            gradients[name] = [p.grad for p in parameters]
        rows = gather(torch.full((2,), distributed.rank()))
        result = {
            "losses": losses,
            "gradients": gradients,
            "unused": unused.grad,
            "rows": rows,
        }
        torch.save(result, folder / f"{distributed.rank()}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
