"""One of the processes that torchrun starts for test_ranks.py: runs stages one after the other, in the present folder.

    torchrun ... ranks.py ORDER.json

It sets what the order says, writes down the gradients of each training's first step, and kills itself where the order
says so. After a kill torchrun starts it again, and it goes on with the stage in which that happened.
"""

import json
import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

import torch

from gnn_encoder.base import distributed
from gnn_encoder.train import loop


def load_forks() -> Any:
    """The module tests/forks.py."""
    return runpy.run_path(str(Path(__file__).parents[1] / "forks.py"))


def note_gradients(found: dict[str, list[torch.Tensor]]) -> None:
    """Fill `found` with the gradients of the first step of each training to come, by its title."""
    add_up, begun = loop.sum_gradients, list[str]()

    class Run(loop._Run):
        def __post_init__(self) -> None:
            begun.append(self.title)
            super().__post_init__()

    def sum_gradients(parameters: list[torch.nn.Parameter]) -> None:
        add_up(parameters)
        if begun:
            zeros = (torch.zeros_like(one) if one.grad is None else one.grad.clone() for one in parameters)
            found[f"{begun.pop()} {len(found)}"] = list(zeros)

    loop._Run, loop.sum_gradients = Run, sum_gradients


def kill_after(name: str, calls: int, mark: Path) -> None:
    """Have this process kill itself after so many calls of a function."""
    owner, attribute = load_forks()["resolve"](name)
    function, count = getattr(owner, attribute), 0

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        result, count = function(*args, **kwargs), count + 1
        if count == calls and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, attribute, counted)


def main(order: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    forks = load_forks()
    for name, value in order.get("settings", {}).items():
        setattr(*forks["resolve"](name), value)
    gradients: dict[str, list[torch.Tensor]] = {}
    note_gradients(gradients)
    notes = Path(order["notes"])
    for number, (command, *kill) in enumerate(order["stages"]):
        if (notes / f"done-{number}").exists():
            continue
        if kill and os.environ.get("RANK") == "1":
            kill_after(*kill, mark=notes / f"killed-{number}")
        sys.argv = [f"stages/{command[0]}.py", *command[1:]]
        runpy.run_path(sys.argv[0], run_name="__main__")
        distributed.barrier()
        if distributed.is_first():
            torch.save(gradients, notes / "gradients.pt")
            (notes / f"done-{number}").touch()


if __name__ == "__main__":
    with distributed.session():
        main(json.loads(Path(sys.argv[1]).read_text()))
