"""Small dual-encoders, which start from a folder with a base model."""

from pathlib import Path

from gnn_encoder.pipeline.params import Encoder
from gnn_encoder.text.encoder import DualEncoder


def settings(model: Path, **changes: object) -> Encoder:
    values: dict[str, object] = {
        "model": str(model),
        "revision": None,
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


def dual_encoder(model: Path, **changes: object) -> DualEncoder:
    """On CPU."""
    return DualEncoder.from_pretrained(settings(model, **changes)).cpu()
