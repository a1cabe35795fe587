"""A small task with tokens, examples and an encoder in float64."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.tokens import open_tokens
from gnn_encoder.train.dual_encoder import Texts
from gnn_encoder.train.examples import Examples, to_examples

from ..encoders import dual_encoder
from ..texts import text, write_passages, write_queries

LISTS = {"query": pl.Int32, "positives": pl.List(pl.Int32), "negatives": pl.List(pl.Int32)}


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """12 passages and 8 queries, as the pipeline writes them."""
    write_passages(tmp_path / "passages.parquet", [""] * 12, [text(i, 3 + i) for i in range(12)])
    write_queries(tmp_path / "train.parquet", [text(20 + i, 2 + i) for i in range(8)])
    return tmp_path


def tiny_encoder(model: Path, dropout: float = 0.0, shared: bool = True, pair_length: int | None = None) -> DualEncoder:
    """In float64, so that two ways to the same gradient can be told from two gradients."""
    encoder = dual_encoder(model, temperature=0.1, passage_length=16, dropout=dropout, shared=shared).double()
    encoder.settings = replace(encoder.settings, pair_length=pair_length)
    return encoder


@pytest.fixture
def texts(tables: Path, tiny_model: Path) -> Texts:
    encoder = tiny_encoder(tiny_model)
    sides = (open_tokens(tables / f"{name}.parquet", encoder.tokenizer, tables, 32) for name in ("train", "passages"))
    return Texts(encoder, *sides)


@pytest.fixture
def examples() -> Examples:
    """8 queries over 12 passages; 0 and 1 share positive 0; 6 has no negative; 11 is relevant for 2, but not listed."""
    positives = [[0], [0, 3], [1], [2], [4, 5], [6], [7], [8]]
    negatives = [[9, 10, 1], [10, 11], [0, 2], [9], [3, 9, 10, 11], [1, 2], [], [10]]
    examples = to_examples(pl.DataFrame([range(8), positives, negatives], schema=LISTS), 12)
    return replace(examples, known=np.sort([*examples.known, 2 * 12 + 11]))
