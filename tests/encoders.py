"""Small encoders, which start from a folder with a base model."""

from pathlib import Path

import torch

from gnn_encoder.pipeline.params import Encoder
from gnn_encoder.text.cross_encoder import CrossEncoder
from gnn_encoder.text.encoder import DualEncoder


def settings(model: Path, **changes: object) -> Encoder:
    values: dict[str, object] = {
        "model": str(model),
        "pooling": "mean",
        "similarity": "cosine",
        "temperature": 0.05,
        "shared": True,
        "query_length": 10,
        "passage_length": 24,
        "dropout": 0.0,
        "frozen_layers": 0,
        "precision": "fp32",
        "batch_tokens": 512,
        "chunk_size": 128,
    }
    return Encoder.model_validate(values | changes)


@torch.no_grad()
def dual_encoder(model: Path, **changes: object) -> DualEncoder:
    """On CPU. Its two sides differ if they do not share their weights."""
    encoder = DualEncoder.from_pretrained(settings(model, **changes)).cpu()
    if not encoder.settings.shared:
        encoder.passage.encoder.layer[0].output.dense.weight.mul_(2.0)
    return encoder


def cross_encoder(model: Path, seed: int = 0, **changes: object) -> CrossEncoder:
    return CrossEncoder.from_pretrained(str(model), settings(model, **changes), seed=seed)
