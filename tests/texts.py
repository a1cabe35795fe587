"""Texts made of a few words, vectors of whole numbers, pairs of rows; tables and matrices on disk."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from gnn_encoder.base.matrix import ArrayManifest, ArrayWriter
from gnn_encoder.base.tables import PASSAGES, QUERIES, write_table

WORDS = "bread oven flour water yeast salt dough crust bake slow warm rise fold rest knead heat steam time".split()
PAIR = {"query": pl.Int32, "passage": pl.Int32}


def text(number: int, size: int) -> str:
    return " ".join(WORDS[(number * 7 + i * (1 + number % 3)) % len(WORDS)] for i in range(size))


def whole_numbers(seed: int, *shape: int) -> np.ndarray:
    """Small whole numbers: every inner product is exact in float32, and many are equal."""
    return np.random.default_rng(seed).integers(-2, 3, size=shape).astype(np.float32)


def pairs(*rows: tuple[int, int]) -> pl.DataFrame:
    """A table of rows of queries and passages."""
    return pl.DataFrame(list(rows), schema=PAIR, orient="row")


def write(path: Path, schema: pa.Schema, *columns: Iterable[object]) -> Path:
    """A table as stages write it."""
    write_table(path, schema, [pa.table(list(map(list, columns)), schema=schema)])
    return path


def write_matrix(folder: Path, matrix: np.ndarray, fingerprint: str = "", views: int = 1) -> Path:
    """An embeddings folder as stages write it."""
    writer = ArrayWriter(folder, matrix.shape, str(matrix.dtype))
    writer.write(0, matrix)
    made = {"model_fingerprint": "", "input_fingerprint": "", "fingerprint": fingerprint}
    writer.finish(ArrayManifest(shape=matrix.shape, dtype=str(matrix.dtype), views=views, **made))
    return folder


def write_passages(path: Path, titles: list[str], texts: list[str]) -> Path:
    return write(path, PASSAGES, map(str, range(len(texts))), titles, texts)


def write_queries(path: Path, texts: list[str]) -> Path:
    return write(path, QUERIES, map(str, range(len(texts))), texts, [[]] * len(texts))
