"""What one of two processes does: its part of a batch, and its windows of a pool; test_distributed.py starts both."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from gnn_encoder.base import distributed
from gnn_encoder.dual_cross.views import generated_examples
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.tokens import TextTokens
from gnn_encoder.train.dev import shared_rows
from gnn_encoder.train.dual_encoder import Texts, contrastive_step
from gnn_encoder.train.examples import TrainingBatch
from gnn_encoder.train.loop import share_weights, sum_gradients, sum_value

ALPHAS = (0.0, 0.3)  # the query-centric loss, and PAIR's
ASKED = np.array([0, 7, 35, 1, 12])  # generated queries; 0 and 1 are of one passage, on different ranks


def step(texts: Texts, asked: np.ndarray, alpha: float) -> tuple[float, list[torch.Tensor | None]]:
    """Loss and gradients of a Dual-Cross-Encoder that reads some generated queries with a hard negative each."""
    batch = TrainingBatch(asked, np.concatenate([asked // 3, (asked + 10) % 12]))
    texts.encoder.zero_grad()
    loss = contrastive_step(texts, batch, generated_examples(12, 3, None, 0), alpha=alpha)
    return summed(loss, list(texts.encoder.parameters()))


def summed(loss: float, parameters: list[nn.Parameter]) -> tuple[float, list[torch.Tensor | None]]:
    sum_gradients(parameters)
    return sum_value(loss), [parameter.grad for parameter in parameters]


def work(folder: Path) -> dict[str, Any]:
    """All cases; alone, with one process, it is what must come of them."""
    encoder = DualEncoder.load(folder / "encoder", precision="fp32")
    tokens = TextTokens.open(folder / "queries"), TextTokens.open(folder / "passages")
    unused = nn.Parameter(torch.zeros(2))
    texts = Texts(encoder, *tokens, chunk_size=3)
    started = nn.Linear(2, 1)
    nn.init.constant_(started.weight, distributed.rank())
    share_weights({"started": started})
    return {
        "started": started.weight.data,
        "steps": [step(texts, ASKED, alpha) for alpha in ALPHAS],
        "unused": summed(0.0, [unused])[1],
        "pool": shared_rows(np.arange(5), 2, 1, lambda part: torch.from_numpy(part)[:, None] / 8 + distributed.rank()),
    }


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    with distributed.session():
        torch.save(work(folder), folder / f"{distributed.rank()}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
