"""The state of a training in one file: weights, the optimiser's moments and progress."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from gnn_encoder.base.files import publish


def save(
    path: Path, modules: dict[str, nn.Module], optimizer: torch.optim.Optimizer | None, progress: dict[str, Any]
) -> None:
    """Write weights, moments and `progress`, which JSON could hold, beside `path`, then rename it to `path`."""
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
        raise _cause(error) from None
    publish(beside, path)


def load(path: Path, modules: dict[str, nn.Module], optimizer: torch.optim.Optimizer | None = None) -> dict[str, Any]:
    """Load a checkpoint's weights into `modules` and its moments into `optimizer`. Returns its `progress`."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    for name, module in modules.items():
        module.load_state_dict(state["modules"][name])
    if optimizer is not None:
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state["moments"]})
    progress: dict[str, Any] = state["progress"]
    return progress


def _cause(error: BaseException) -> BaseException:
    """The OSError in whose handling an error was raised; if there is none, the error itself."""
    within = error
    while within.__context__ is not None and not isinstance(within, OSError):
        within = within.__context__
    return within if isinstance(within, OSError) else error
