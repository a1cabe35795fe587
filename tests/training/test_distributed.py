"""Two processes with half a batch each train as one process with the whole batch does."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gnn_encoder.core import distributed
from gnn_encoder.core.errors import UserError
from gnn_encoder.training.collectives import gather, sum_value
from gnn_encoder.training.contrastive import local_share

from ..two_processes import run_two
from .two_ranks import LOSSES, batch_of, loss_of, models

SCRIPT = Path(__file__).with_name("two_ranks.py")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    folder = tmp_path_factory.mktemp("ranks")
    run_two(SCRIPT, folder)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("name", LOSSES)
def test_loss_and_gradients_equal_one_big_batch(results: list[dict[str, Any]], name: str) -> None:
    model = models()
    loss = loss_of(model, batch_of(np.arange(6)), LOSSES[name])
    loss.backward()
    for result in results:
        assert result["losses"][name] == pytest.approx(loss.item(), abs=1e-12)
        for found, parameter in zip(result["gradients"][name], model.parameters(), strict=True):
            assert parameter.grad is not None and float(parameter.grad.abs().max()) > 1e-4
            torch.testing.assert_close(found, parameter.grad, rtol=0, atol=1e-9)


def test_passages_of_the_other_process_count() -> None:
    """What the test above would compare with if each process saw only its own passages: something else."""
    halves = [loss_of(models(), batch_of(np.arange(first, first + 3))).item() for first in (0, 3)]
    assert abs(sum(halves) / 2 - loss_of(models(), batch_of(np.arange(6))).item()) > 0.1


def test_a_parameter_that_no_rank_used_has_a_zero_gradient(results: list[dict[str, object]]) -> None:
    assert [result["unused"].tolist() for result in results] == [[0, 0], [0, 0]]


def test_rows_come_in_the_order_of_ranks(results: list[dict[str, object]]) -> None:
    assert [result["rows"].tolist() for result in results] == [[0, 0, 1, 1]] * 2


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
