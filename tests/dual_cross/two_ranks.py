"""One of two processes of test_distributed.py: its halves of batches, and its windows of the views."""

import runpy
import sys
from pathlib import Path

import numpy as np
import torch

from gnn_encoder.base import distributed
from gnn_encoder.base.matrix import Origin
from gnn_encoder.dual_cross.views import generated_examples, view_inputs
from gnn_encoder.text import corpus
from gnn_encoder.text.corpus import encode_corpus, transform_corpus
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.tokens import TextTokens
from gnn_encoder.train.dual_encoder import Texts, contrastive_step
from gnn_encoder.train.examples import TrainingBatch
from gnn_encoder.train.loop import sum_gradients, sum_value

CHUNK = 3
TRAINING = Path(__file__).parents[1] / "train" / "two_ranks.py"
ASKED = np.array([0, 7, 35, 1, 12])  # 0 and 1 are of one passage, on different ranks


def step(encoder: DualEncoder, generated: TextTokens, passages: TextTokens, queries: np.ndarray = ASKED) -> float:
    """This rank's share of some generated queries, with a hard negative each."""
    batch = TrainingBatch(queries, np.concatenate([queries // 3, (queries + 10) % 12]))
    examples = generated_examples(12, 3, None, 0)
    return contrastive_step(encoder, Texts(encoder, generated, passages, chunk_size=CHUNK), batch, examples)


def write_views(encoder: DualEncoder, generated: TextTokens, passages: TextTokens, folder: Path) -> None:
    origin = Origin(model_fingerprint="model", input_fingerprint="input")
    inputs = view_inputs(encoder, generated, passages, 3)
    encode_corpus(encoder, inputs, folder, dtype="float32", batch_tokens=64, origin=origin, views=3)
    doubled = folder.with_name(f"{folder.name}-doubled")
    transform_corpus(folder, doubled, dtype="float32", origin=origin, transform=lambda _, block: 2 * block)


def open_encoder(folder: Path) -> DualEncoder:
    return DualEncoder.load(folder / "encoder", precision="fp32")


def open_texts(folder: Path) -> tuple[TextTokens, TextTokens]:
    return TextTokens.open(folder / "queries"), TextTokens.open(folder / "passages")


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    corpus.WINDOW = 7
    with distributed.session():
        encoder = open_encoder(folder)
        loss = step(encoder, *open_texts(folder))
        sum_gradients(list(encoder.parameters()))
        result = {"loss": sum_value(loss), "gradients": [p.grad for p in encoder.parameters()]}
        result["exchanged"] = runpy.run_path(str(TRAINING))["exchange"]()
        torch.save(result, folder / f"{distributed.rank()}.pt")
        write_views(encoder.for_inference(), *open_texts(folder), folder / "views")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
