"""The training loop of all models: resumable from checkpoints, keeping the best weights."""

import logging
import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl
import torch
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

from gnn_encoder.base import distributed
from gnn_encoder.base.distributed import tqdm, world_size
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import WORK, publish
from gnn_encoder.pipeline.params import Params
from gnn_encoder.text.cross_encoder import CrossEncoder
from gnn_encoder.text.device import device
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.train.examples import seed_of

log = logging.getLogger(__name__)
CHECKPOINT_SECONDS = 60.0  # between checkpoints; a kill loses this much training at most
CLIP = 1.0
WARMUP = 0.1  # share of the steps over which learning rates rise

HISTORY = "history.csv"  # in a trained model's folder
History = list[dict[str, Any]]
COLUMNS = {"phase": pl.String, "step": pl.Int64, "loss": pl.Float64, "dev_rr10": pl.Float64}


def write_history(path: Path, history: History) -> None:
    """Write a learning curve as CSV: the loss is in nats a query, `dev_rr10` in 0..1."""
    if distributed.is_first():
        pl.DataFrame(history, schema=COLUMNS).write_csv(path)


class Task(Protocol):
    """A model with its data and loss. A step depends on seed and number alone, so that a resumed run repeats it."""

    modules: dict[str, nn.Module]
    steps: int  # of the optimiser

    def step(self, number: int) -> float:
        """Add the gradient of step `number` to the parameters; return this rank's share of the mean loss."""

    def evaluate(self) -> float:
        """Dev score of the present weights, higher is better."""


def parameter_group(module: nn.Module, learning_rate: float) -> dict[str, Any]:
    """The parameters of a module that are not frozen, as a parameter group of AdamW."""
    return {"params": [p for p in module.parameters() if p.requires_grad], "lr": learning_rate}


def rate_factor(step: int, steps: int) -> float:
    """Factor of the learning rate: linear warm-up over `WARMUP * steps` steps, then linear decay to zero at `steps`."""
    rising = WARMUP * steps
    if step < rising:
        return (step + 1) / (rising + 1)
    return (steps - step) / max(1.0, steps - rising)


def fit(
    task: Task,
    groups: list[dict[str, Any]],
    folder: Path,
    *,
    name: str,
    title: str,
    seed: int,
    evaluations: int = 0,
    start: float | None = None,
) -> History:
    """Train `task`, and return one row per optimiser step or evaluation: phase, step, loss, dev_rr10.

    So many `evaluations` on dev are evenly spread, the last one at the end; before them the start is scored, unless its
    score `start` is known. Afterwards the task's modules hold the weights of the best score, of equal ones the
    earliest, or without evaluations the last weights. If `folder` holds checkpoints, training resumes.

    `groups` are AdamW's, with `params` and `lr`; `name` is the phase's in the history, `title` that in the log.
    """
    parameters = [parameter for group in groups for parameter in group["params"]]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.0)
    rates = [group["lr"] for group in groups]
    share_weights(task.modules)
    run = _Run(task, optimizer, folder, name, title, evaluations, start)
    with tqdm(total=task.steps, initial=run.step, desc=title, unit=" steps") as bar:
        while run.step < task.steps:
            torch.manual_seed(seed_of(seed, run.step, distributed.rank()))
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * rate_factor(run.step, task.steps)
            optimizer.zero_grad(set_to_none=True)
            loss = sum_value(task.step(run.step))
            if not np.isfinite(loss):
                cure = "lower the learning rate of this training, or take fp32 for encoder.precision"
                raise UserError(f"{title}: the loss became {loss} at step {run.step}; {cure}")
            sum_gradients(parameters)
            nn.utils.clip_grad_norm_(parameters, CLIP)
            optimizer.step()
            run.after_step(loss)
            bar.update()
            bar.set_postfix(loss=f"{loss:.3f}", dev=run.best, refresh=False)
    run.finish()
    return run.history


def fit_evenly(
    task: Task, model: DualEncoder | CrossEncoder, rate: float, params: Params, folder: Path, *, name: str, title: str
) -> None:
    """Train one model, with `dev.evaluations` dev scores after the start's, and write it with its learning curve."""
    groups, evaluations = [parameter_group(model, rate)], params.dev.evaluations
    history = fit(task, groups, folder / WORK, name=name, title=title, seed=params.seed, evaluations=evaluations)
    model.save(folder)
    write_history(folder / HISTORY, history)


@dataclass
class _Run:
    """The state of a training run: its progress, how it is saved, and how it is resumed."""

    task: Task
    optimizer: Optimizer
    folder: Path
    name: str
    title: str
    evaluations: int
    start: float | None
    step: int = 0
    best: float | None = None
    history: History = field(default_factory=list)

    def __post_init__(self) -> None:
        self.last, self.best_path = self.folder / "last.pt", self.folder / "best.pt"
        self.scored = {math.ceil(n * self.task.steps / self.evaluations) for n in range(1, self.evaluations + 1)}
        self.saved = time.monotonic()
        distributed.barrier()
        if self.last.exists() and (self.best_path.exists() or not self.scored):  # else a kill fell into their deletion
            vars(self).update(load_checkpoint(self.last, self.task.modules, self.optimizer))
            log.info("%s: resuming at step %d of %d", self.title, self.step, self.task.steps)
        elif self.scored:
            self.evaluate(self.start)

    def after_step(self, loss: float) -> None:
        self.step += 1
        self.history.append({"phase": self.name, "step": self.step, "loss": loss, "dev_rr10": None})
        is_over = self.step == self.task.steps
        if self.step in self.scored:
            self.evaluate()
        if time.monotonic() - self.saved > CHECKPOINT_SECONDS or is_over:
            self.save(self.last, self.optimizer)
            self.saved = time.monotonic()

    def evaluate(self, known: float | None = None) -> None:
        score = self.task.evaluate() if known is None else known
        score = sum_value(score if distributed.is_first() else 0.0)  # ranks that differ in a bit must stop together
        self.history.append({"phase": self.name, "step": self.step, "loss": None, "dev_rr10": score})
        log.info("%s: step %d of %d, dev RR@10 %.4f", self.title, self.step, self.task.steps, score)
        if self.best is None or score > self.best:
            self.best = score
            self.save(self.best_path, None)

    def save(self, path: Path, optimizer: Optimizer | None) -> None:
        if distributed.is_first():
            progress = {"step": self.step, "best": self.best, "history": self.history}
            save_checkpoint(path, self.task.modules, optimizer, progress)

    def finish(self) -> None:
        distributed.barrier()
        if self.best_path.exists() and self.task.steps:
            kept, start = load_checkpoint(self.best_path, self.task.modules), self.history[0]["dev_rr10"]
            told = "%s: kept the weights of step %d of %d, dev RR@10 %.4f; at the start it was %.4f"
            log.info(told, self.title, kept["step"], self.task.steps, kept["best"], start)


def save_checkpoint(
    path: Path, modules: dict[str, nn.Module], optimizer: Optimizer | None, progress: dict[str, Any]
) -> None:
    """Write weights, the optimiser's moments and `progress`, which JSON could hold, into one file, as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".partial")
    state = {
        "modules": {name: module.state_dict() for name, module in modules.items()},
        "moments": optimizer.state_dict()["state"] if optimizer else {},
        "progress": progress,
    }
    try:
        with beside.open("wb") as file:  # given a path, torch does not say that the disk is full
            torch.save(state, file)
    except RuntimeError as error:  # torch's own, raised while it handles that of the file
        raise (error.__context__ if isinstance(error.__context__, OSError) else error) from None
    publish(beside, path)


def load_checkpoint(path: Path, modules: dict[str, nn.Module], optimizer: Optimizer | None = None) -> dict[str, Any]:
    """Load a checkpoint's weights into `modules` and its moments into `optimizer`. Returns its `progress`."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    for name, module in modules.items():
        module.load_state_dict(state["modules"][name])
    if optimizer is not None:
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state["moments"]})
    progress: dict[str, Any] = state["progress"]
    return progress


def share_weights(modules: dict[str, nn.Module]) -> None:
    """Give all ranks the first's weights, as `DistributedDataParallel` does: those that differ would stay different."""
    if world_size() > 1:
        for module in modules.values():
            for weights in module.state_dict().values():
                dist.broadcast(weights, src=0)


def sum_gradients(parameters: list[nn.Parameter]) -> None:
    """Sum every parameter's gradient over the ranks: each rank's loss is its share of the whole batch's mean."""
    if world_size() > 1:
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)


def sum_value(value: float) -> float:
    """Sum of a number over the ranks."""
    if world_size() == 1:
        return value
    total = torch.tensor(value, dtype=torch.float64, device=device())
    dist.all_reduce(total)
    return float(total)
