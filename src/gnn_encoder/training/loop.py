"""The training loop of all models: resumable from checkpoints, with early stopping, keeping the best weights."""

import ctypes
import logging
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl
import torch
from torch import nn

from gnn_encoder.base import distributed
from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.errors import UserError
from gnn_encoder.pipeline.params import Contrastive, TrainCrossEncoder
from gnn_encoder.training import checkpoints
from gnn_encoder.training.collectives import sum_gradients, sum_value

log = logging.getLogger(__name__)
CHECKPOINT_SECONDS = 60.0  # between checkpoints; a kill loses this much training at most
CLIP = 1.0
WARMUP = 0.1  # share of the steps over which learning rates rise
M_TRIM_THRESHOLD, M_MMAP_MAX, NEVER = -1, -4, 2**31 - 1  # <malloc.h>

History = list[dict[str, Any]]
COLUMNS = {"phase": pl.String, "step": pl.Int64, "loss": pl.Float64, "dev_rr10": pl.Float64}


def write_history(path: Path, history: History) -> None:
    """Write a learning curve as CSV: the loss is in nats a query, `dev_rr10` in 0..1."""
    if distributed.is_first():
        pl.DataFrame(history, schema=COLUMNS).write_csv(path)


class Task(Protocol):
    """A model with its data and loss. A step depends on seed and number alone, so that a resumed run repeats it."""

    modules: dict[str, nn.Module]

    def __len__(self) -> int:
        """Number of optimiser steps."""

    def step(self, number: int) -> float:
        """Add the gradient of step `number` to the parameters; return this rank's share of the mean loss."""

    def evaluate(self) -> float:
        """Dev score of the present weights, higher is better."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a task is optimised."""

    name: str  # the phase's name in the history
    seed: int
    evaluate_every: int | None = None  # steps between evaluations; None: never, and the last weights are the result
    patience: int = 1  # evaluations without a better score before training stops
    title: str  # what is trained, in the log


def parameter_group(module: nn.Module, learning_rate: float) -> dict[str, Any]:
    """The parameters of a module that are not frozen, as a parameter group of AdamW."""
    return {"params": [p for p in module.parameters() if p.requires_grad], "lr": learning_rate}


def rate_factor(step: int, steps: int) -> float:
    """Factor of the learning rate: linear warm-up over `WARMUP * steps` steps, then linear decay to zero at `steps`."""
    rising = WARMUP * steps
    if step < rising:
        return (step + 1) / (rising + 1)
    return (steps - step) / max(1.0, steps - rising)


def fit(task: Task, groups: list[dict[str, Any]], settings: Settings, folder: Path) -> History:
    """Train `task`.

    Afterwards its modules hold the weights of the best dev score, the weights before training included; of equal scores
    the earliest counts. Without evaluation they hold the last weights.

    Args:
        groups: AdamW parameter groups, each with `params` and `lr`.
        folder: scratch folder of `last.pt` and `best.pt`; if they are there, training resumes.

    Returns:
        One row per optimiser step or evaluation: phase, step, loss, dev_rr10.
    """
    keep_freed_memory()
    parameters = [parameter for group in groups for parameter in group["params"]]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.0)
    base_rates = [group["lr"] for group in groups]
    run = _Run(task, optimizer, settings, folder)
    with tqdm(total=len(task), initial=run.step, desc=settings.title, unit=" steps") as bar:
        while run.step < len(task) and not run.stopped:
            _seed(settings.seed, run.step)
            for group, rate in zip(optimizer.param_groups, base_rates, strict=True):
                group["lr"] = rate * rate_factor(run.step, len(task))
            optimizer.zero_grad(set_to_none=True)
            loss = sum_value(task.step(run.step))
            _check(loss, settings.title, run.step)
            sum_gradients(parameters)
            nn.utils.clip_grad_norm_(parameters, CLIP)
            optimizer.step()
            run.after_step(loss)
            bar.update()
            bar.set_postfix(loss=f"{loss:.3f}", dev=run.best)
    run.finish()
    return run.history


def fit_evenly(
    task: Task,
    module: nn.Module,
    folder: Path,
    settings: Contrastive | TrainCrossEncoder,
    *,
    name: str,
    title: str,
    seed: int,
    evaluations: int,
) -> History:
    """As `fit`, of one module, with `evaluations` dev scores, the first at the start, the last at the end.

    They are spread evenly over the steps, and none of them stops training.
    """
    every = max(1, math.ceil(len(task) / (evaluations - 1)))
    how = Settings(name=name, title=title, seed=seed, evaluate_every=every, patience=evaluations)
    return fit(task, [parameter_group(module, settings.learning_rate)], how, folder)


def keep_freed_memory() -> None:
    """Make this process reuse freed memory from now on, where the C library is glibc. Results do not change.

    The tensors of a step are so large that glibc gives each a memory mapping of its own, which it zeroes page by page
    on first touch. On a CPU these are tens of thousands of page faults per step and a fifth of its time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    if mallopt:  # musl has none
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, NEVER)


class _Run:
    """The state of a training run: its progress, how it is saved, and how it is resumed."""

    def __init__(self, task: Task, optimizer: torch.optim.Optimizer, settings: Settings, folder: Path) -> None:
        self.task, self.optimizer, self.settings = task, optimizer, settings
        self.last, self.best_path = folder / "last.pt", folder / "best.pt"
        self.step, self.waited = 0, 0
        self.best: float | None = None
        self.history: History = []
        self.saved = time.monotonic()
        distributed.barrier()
        if self.last.exists():
            progress = checkpoints.load(self.last, task.modules, optimizer)
            self.step, self.waited, self.best = progress["step"], progress["waited"], progress["best"]
            self.history = progress["history"]
            log.info("%s: resuming at step %d of %d", settings.title, self.step, len(task))
        elif settings.evaluate_every and len(task):
            self.evaluate()

    @property
    def stopped(self) -> bool:
        return self.waited >= self.settings.patience

    def after_step(self, loss: float) -> None:
        self.step += 1
        self.history.append({"phase": self.settings.name, "step": self.step, "loss": loss, "dev_rr10": None})
        every = self.settings.evaluate_every
        if every and (self.step % every == 0 or self.step == len(self.task)):
            self.evaluate()
        if time.monotonic() - self.saved > CHECKPOINT_SECONDS or self.step == len(self.task) or self.stopped:
            self.save(self.last, self.optimizer)
            self.saved = time.monotonic()

    def evaluate(self) -> None:
        score = self.task.evaluate()
        score = sum_value(score if distributed.is_first() else 0.0)  # ranks that differ in a bit must stop together
        self.history.append({"phase": self.settings.name, "step": self.step, "loss": None, "dev_rr10": score})
        log.info("%s: step %d of %d, dev RR@10 %.4f", self.settings.title, self.step, len(self.task), score)
        if self.best is None or score > self.best:
            self.best, self.waited = score, 0
            self.save(self.best_path, None)
        else:
            self.waited += 1

    def save(self, path: Path, optimizer: torch.optim.Optimizer | None) -> None:
        if distributed.is_first():
            progress = {"step": self.step, "waited": self.waited, "best": self.best, "history": self.history}
            checkpoints.save(path, self.task.modules, optimizer, progress)

    def finish(self) -> None:
        distributed.barrier()
        if self.best_path.exists():
            kept, start = checkpoints.load(self.best_path, self.task.modules), self.history[0]["dev_rr10"]
            told = "%s: kept the weights of step %d of %d, dev RR@10 %.4f; at the start it was %.4f"
            log.info(told, self.settings.title, kept["step"], len(self.task), kept["best"], start)


def _seed(seed: int, step: int) -> None:
    state = np.random.SeedSequence([seed, step, distributed.rank()]).generate_state(1)[0]
    torch.manual_seed(int(state))


def _check(loss: float, name: str, step: int) -> None:
    if not np.isfinite(loss):
        raise UserError(
            f"{name}: the loss became {loss} at step {step}; lower the learning rate of this stage in params.yaml, "
            "or set encoder.precision to fp32"
        )
