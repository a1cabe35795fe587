"""Matrices and passages on disk to search."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gnn_encoder.base.tables import PASSAGES

from ..texts import write, write_matrix

Save, Passages = Callable[..., Path], Callable[[int], Path]
VIEWS = 3


def whole_numbers(seed: int, *shape: int) -> np.ndarray:
    """Small whole numbers: every inner product is exact in float32, and many are equal."""
    return np.random.default_rng(seed).integers(-2, 3, size=shape).astype(np.float32)


@pytest.fixture
def save_matrix(tmp_path: Path) -> Save:
    """Saves a matrix as an embeddings folder."""

    def save(matrix: np.ndarray, name: str = "embeddings", views: int = 1) -> Path:
        return write_matrix(tmp_path / name, matrix, name, views)

    return save


@pytest.fixture
def save_passages(tmp_path: Path) -> Passages:
    """Saves a passages table with ids p0, p1, ..."""

    def save(count: int) -> Path:
        ids, texts = ([f"{start}{i}" for i in range(count)] for start in ("p", "text "))
        return write(tmp_path / "passages.parquet", PASSAGES, ids, [""] * count, texts)

    return save
