"""What processes exchange; tests/dual_cross/test_distributed.py starts two."""

import numpy as np
import pytest
import torch

from gnn_encoder.base import distributed
from gnn_encoder.base.errors import UserError
from gnn_encoder.train.dual_encoder import BatchSampler, gather, local_share
from gnn_encoder.train.loop import sum_value

from .two_ranks import ITEMS, batch_of, loss_of, models


def test_passages_of_the_other_process_count() -> None:
    """What the test of two processes would compare with if each process saw only its own passages: something else."""
    parts = [loss_of(models(), batch_of(part)).item() * len(part) for part in np.array_split(ITEMS, 2)]
    assert abs(sum(parts) / len(ITEMS) - loss_of(models(), batch_of(ITEMS)).item()) > 0.1


def test_alone_nothing_is_exchanged() -> None:
    rows = torch.ones(2, requires_grad=True)
    assert gather(rows, np.arange(2), 2) is rows
    assert (distributed.rank(), distributed.world_size(), distributed.is_first()) == (0, 1, True)
    assert sum_value(0.1) == 0.1
    distributed.barrier()


def test_a_batch_smaller_than_the_group_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "world_size", lambda: 4)
    parts = []
    for rank in range(4):
        monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
        parts.append(local_share(np.arange(9)).tolist())
    assert parts == [[0, 1, 2], [3, 4], [5, 6], [7, 8]]
    BatchSampler(9, 1.0, 5, seed=0)
    with pytest.raises(UserError, match="a batch of 3 queries is too small for 4 processes; raise"):
        BatchSampler(9, 1.0, 3, seed=0)
    with pytest.raises(UserError, match="a batch of 3 queries is too small for 4 processes; raise"):
        local_share(np.arange(3))
