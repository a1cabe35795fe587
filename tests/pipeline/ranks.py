"""One of the processes of test_ranks.py: runs stages one after the other, in the present folder.

It sets what the order says, and writes down the gradients of each training's first step.
"""

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import torch

from gnn_encoder.base import distributed
from gnn_encoder.train import loop


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


def main(order: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    resolve = runpy.run_path(str(Path(__file__).parents[1] / "forks.py"))["resolve"]
    for name, value in order["settings"].items():
        setattr(*resolve(name), value)
    gradients: dict[str, list[torch.Tensor]] = {}
    note_gradients(gradients)
    for stage, *arguments in order["stages"]:
        sys.argv = [f"stages/{stage}.py", *arguments]
        runpy.run_path(sys.argv[0], run_name="__main__")
        distributed.barrier()
    if distributed.is_first():
        torch.save(gradients, order["gradients"])


if __name__ == "__main__":
    with distributed.session():
        main(json.loads(Path(sys.argv[1]).read_text()))
