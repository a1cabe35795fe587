"""Training state in one safetensors file: weights and optimiser moments as tensors, progress as JSON in its header."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

STATE = "state"


def save(
    path: Path, modules: dict[str, nn.Module], optimizer: torch.optim.Optimizer | None, progress: dict[str, Any]
) -> None:
    """Write weights, optimiser state and `progress` (as JSON) to a temporary file, then rename it to `path`."""
    tensors = _unshared(_weights(modules))
    if optimizer is not None:
        for index, state in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{key}": value for key, value in state.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".partial")
    contiguous = {name: value.contiguous() for name, value in tensors.items()}
    save_file(contiguous, beside, metadata={STATE: json.dumps(progress)})
    beside.replace(path)


def load(path: Path, modules: dict[str, nn.Module], optimizer: torch.optim.Optimizer | None = None) -> dict[str, Any]:
    """Load a checkpoint's weights into `modules` and its moments into `optimizer`. Returns its `progress`.

    Raises:
        ValueError: the checkpoint holds the weights of other modules.
    """
    with safe_open(path, framework="pt") as file:
        progress: dict[str, Any] = json.loads(file.metadata()[STATE])
    tensors = load_file(path)
    expected, found = _unshared(_weights(modules)).keys(), {key for key in tensors if not key.startswith("optimizer.")}
    if expected != found:
        raise ValueError(f"{path}: holds other weights than the model: {sorted(expected ^ found)[:3]}")
    for name, module in modules.items():
        prefix = f"{name}."
        # Not strict: a module with two names was written under one of them, and loading that one sets both.
        module.load_state_dict(
            {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}, strict=False
        )
    if optimizer is not None:
        optimizer.load_state_dict({**optimizer.state_dict(), "state": _moments(tensors)})
    return progress


def _weights(modules: dict[str, nn.Module]) -> dict[str, Tensor]:
    return {f"{name}.{key}": value for name, module in modules.items() for key, value in module.state_dict().items()}


def _moments(tensors: dict[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("optimizer."):
            _, index, key = name.split(".")
            state.setdefault(int(index), {})[key] = value
    return state


def _unshared(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Each tensor under one name only: a shared encoder appears under two."""
    seen: set[tuple[int, torch.Size]] = set()
    kept = {}
    for name, value in tensors.items():
        identity = (value.data_ptr(), value.shape)
        if value.numel() == 0 or identity not in seen:
            seen.add(identity)
            kept[name] = value
    return kept
