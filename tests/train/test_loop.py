"""The loop: a run that was killed ends with the undisturbed run's bits, and what is kept is the best."""

import math
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import polars as pl
import pytest
import torch
from torch import nn

from gnn_encoder.base.errors import UserError
from gnn_encoder.train import loop
from gnn_encoder.train.loop import History, fit, fit_evenly, parameter_group, rate_factor


class Toy:
    """A linear map with dropout, so that each step also depends on torch's generator."""

    def __init__(self, steps: int = 8, scores: list[float] | None = None, stop_at: int | None = None) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5), nn.Linear(3, 1))
        self.modules: dict[str, nn.Module] = {"model": self.model}
        self.steps, self.scores, self.stop_at = steps, scores, stop_at
        self.evaluated: list[torch.Tensor] = []
        self.ran: list[int] = []

    def step(self, number: int) -> float:
        if number == self.stop_at:
            raise KeyboardInterrupt
        self.ran.append(number)
        x = torch.sin(torch.arange(8.0).reshape(2, 4) + number)
        loss = (self.model(x) - 1).pow(2).mean()
        loss.backward()
        return loss.item()

    def evaluate(self) -> float:
        self.evaluated.append(self.weights())
        if self.scores is not None:
            return self.scores[len(self.evaluated) - 1]
        return -float(self.weights().abs().sum())

    def weights(self) -> torch.Tensor:
        return torch.cat([p.detach().reshape(-1).clone() for p in self.model.parameters()])


def train(task: Toy, folder: Path, **options: object) -> History:
    how: Any = {"name": "toy", "title": "toy", "seed": 3} | options
    return fit(task, [parameter_group(task.model, 0.05)], folder, **how)


EVERY_STEP = [99.0 * at for at in range(99)]


@pytest.mark.parametrize(
    ("stop_at", "again", "options", "clock"),
    [
        (4, 4, {}, EVERY_STEP),
        (1, 1, {"evaluations": 3}, EVERY_STEP),
        (7, 7, {"evaluations": 3}, EVERY_STEP),
        # a checkpoint after the second step, no other
        (6, 2, {"evaluations": 4}, [0.0, 10.0, 70.0, 70.0, *[80.0] * 99]),
    ],
)
def test_resumed_equals_undisturbed_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: int, again: int, options: dict, clock: list[float]
) -> None:
    whole, now = Toy(), iter(clock)
    history = train(whole, tmp_path / "whole", **options)
    monkeypatch.setattr(loop.time, "monotonic", lambda: next(now))
    with pytest.raises(KeyboardInterrupt):
        train(Toy(stop_at=stop_at), tmp_path / "killed", **options)
    monkeypatch.undo()
    for folder, ran in (("killed", list(range(again, 8))), ("whole", [])):
        resumed = Toy()
        assert train(resumed, tmp_path / folder, **options) == history and resumed.ran == ran
        assert torch.equal(resumed.weights(), whole.weights())


def test_checkpoints_without_the_best_are_not_resumed(tmp_path: Path) -> None:
    """A kill while both are deleted can leave the last one alone, whose weights are not those that are kept."""
    whole, resumed = Toy(scores=[0.5, 0.4, 0.3]), Toy(scores=[0.5, 0.4, 0.3])
    history = train(whole, tmp_path, evaluations=2)
    (tmp_path / "best.pt").unlink()
    assert train(resumed, tmp_path, evaluations=2) == history and torch.equal(resumed.weights(), whole.weights())


@pytest.mark.parametrize(
    ("scores", "kept"),
    [
        ([0.5, 0.4, 0.45, 0.3, 0.2], 0),  # nothing beats the start
        ([0.1, 0.2, 0.3, 0.25, 0.3], 2),  # an equal score is no better one
        ([0.1, 0.05, 0.3, 0.2, 0.4], 4),
    ],
)
def test_the_best_is_kept(tmp_path: Path, scores: list[float], kept: int) -> None:
    task = Toy(scores=scores)
    history = train(task, tmp_path / "toy", evaluations=4)
    assert torch.equal(task.weights(), task.evaluated[kept])
    for row, step, score in ((history[0], 0, scores[0]), (history[-1], 8, scores[4])):
        assert row == {"phase": "toy", "step": step, "loss": None, "dev_rr10": score}
    assert [row["step"] for row in history if row["loss"] is not None] == list(range(1, 9))
    known = Toy(2, scores=[0.3])  # a start whose score is known is not scored again
    history = train(known, tmp_path / "known", evaluations=1, start=0.4)
    assert [row["dev_rr10"] for row in history] == [0.4, None, None, 0.3]
    assert torch.equal(known.weights(), Toy(2).weights()), "the start is the best"


@pytest.mark.parametrize(
    ("steps", "evaluations", "at"),
    [(47, 3, [0, 16, 32, 47]), (5, 4, [0, 2, 3, 4, 5]), (2, 8, [0, 1, 2]), (8, 1, [0, 8]), (1, 1, [0, 1])],
)
def test_evaluations_are_spread_evenly(tmp_path: Path, steps: int, evaluations: int, at: list[int]) -> None:
    task = Toy(steps, [0.1] * len(at))
    task.model.save = lambda folder: None
    fit_evenly(task, task.model, 0.05, Mock(dev=Mock(evaluations=evaluations), seed=0), tmp_path, name="n", title="t")
    history = pl.read_csv(tmp_path / "history.csv")
    assert history.columns == ["phase", "step", "loss", "dev_rr10"]
    assert history.drop_nulls("dev_rr10")["step"].to_list() == at and len(history) == len(at) + steps


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite(tmp_path: Path, loss: float) -> None:
    task = Toy()
    task.step = lambda number: loss if number == 2 else 1.0  # type: ignore[method-assign]
    with pytest.raises(UserError, match=rf"^toy: the loss became {loss} at step 2; lower the learning rate"):
        train(task, tmp_path)


def test_gradients_are_clipped_and_the_rate_rises_then_falls_to_zero(tmp_path: Path) -> None:
    task = Toy(steps=1)
    weights = list(task.model.parameters())

    def step(number: int) -> float:
        for p in weights:
            p.grad = torch.full_like(p, 100.0)
        return 1.0

    task.step = step  # type: ignore[method-assign]
    train(task, tmp_path)
    assert torch.cat([p.grad.reshape(-1) for p in weights]).norm().item() == pytest.approx(1.0, abs=1e-4)
    found = [rate_factor(step, 20) for step in range(21)]  # 2 of warm-up
    assert found == pytest.approx([1 / 3, 2 / 3, *(step / 18 for step in range(18, -1, -1))])
