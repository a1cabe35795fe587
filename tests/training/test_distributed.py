"""What processes exchange; tests/dual_cross/test_distributed.py starts two."""

import numpy as np
import pytest
import torch

from gnn_encoder.core import distributed
from gnn_encoder.core.errors import UserError
from gnn_encoder.training.collectives import gather, sum_value
from gnn_encoder.training.contrastive import local_share

from .two_ranks import batch_of, loss_of, models


def test_passages_of_the_other_process_count() -> None:
    """What the test of two processes would compare with if each process saw only its own passages: something else."""
    halves = [loss_of(models(), batch_of(np.arange(first, first + 3))).item() for first in (0, 3)]
    assert abs(sum(halves) / 2 - loss_of(models(), batch_of(np.arange(6))).item()) > 0.1


def test_alone_nothing_is_exchanged() -> None:
    rows = torch.ones(2, requires_grad=True)
    assert gather(rows) is rows
    assert (distributed.rank(), distributed.world_size(), distributed.is_first()) == (0, 1, True)
    assert sum_value(0.1) == 0.1
    distributed.barrier()


def test_a_batch_smaller_than_the_group_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "world_size", lambda: 4)
    assert local_share(np.arange(9)).tolist() == [0, 1]
    with pytest.raises(UserError, match="a batch of 3 queries is too small for 4 processes; raise"):
        local_share(np.arange(3))
