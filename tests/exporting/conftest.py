"""What is exported, and what exports must equal."""

from pathlib import Path

import pytest

from gnn_encoder import Searcher
from gnn_encoder.text.encoder import DualEncoder

from ..encoders import dual_encoder


def save_encoder(folder: Path, model: Path, pooling: str = "mean", similarity: str = "cosine") -> DualEncoder:
    """Save the model as a dual-encoder that reads 16 tokens of a query."""
    changes = {"pooling": pooling, "similarity": similarity, "query_length": 16, "passage_length": 32}
    encoder = dual_encoder(model, **changes)
    encoder.save(folder)
    return encoder.for_inference()


@pytest.fixture
def root(built: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The built project as the current folder; tests leave it as it is."""
    monkeypatch.chdir(built)
    return built


def top(searcher: Searcher, text: str, k: int = 10) -> list[str]:
    """Ids of the best passages."""
    return [hit.pid for hit in searcher.search(text, k)]
