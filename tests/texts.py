"""Texts made of a few words, and tables of them on disk."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gnn_encoder.core.records import PASSAGES, QUERIES

WORDS = "bread oven flour water yeast salt dough crust bake slow warm rise fold rest knead heat steam time".split()


def text(number: int, size: int) -> str:
    return " ".join(WORDS[(number * 7 + i * (1 + number % 3)) % len(WORDS)] for i in range(size))


def write_passages(path: Path, titles: list[str], texts: list[str]) -> Path:
    rows = {"pid": [str(i) for i in range(len(texts))], "title": titles, "text": texts}
    pq.write_table(pa.table(rows, schema=PASSAGES), path)
    return path


def write_queries(path: Path, texts: list[str]) -> Path:
    rows = {"qid": [str(i) for i in range(len(texts))], "text": texts, "answers": [[] for _ in texts]}
    pq.write_table(pa.table(rows, schema=QUERIES), path)
    return path
