"""Texts made of a few words, and tables of them on disk."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from gnn_encoder.base.tables import PASSAGES, QUERIES, write_table

WORDS = "bread oven flour water yeast salt dough crust bake slow warm rise fold rest knead heat steam time".split()


def text(number: int, size: int) -> str:
    return " ".join(WORDS[(number * 7 + i * (1 + number % 3)) % len(WORDS)] for i in range(size))


def write(path: Path, schema: pa.Schema, *columns: Iterable[object]) -> Path:
    """A table as stages write it."""
    write_table(path, schema, [pa.table(list(map(list, columns)), schema=schema)])
    return path


def write_passages(path: Path, titles: list[str], texts: list[str]) -> Path:
    return write(path, PASSAGES, map(str, range(len(texts))), titles, texts)


def write_queries(path: Path, texts: list[str]) -> Path:
    return write(path, QUERIES, map(str, range(len(texts))), texts, [[]] * len(texts))
