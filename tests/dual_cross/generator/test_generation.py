"""The table of queries: its rows and its ids. Kills: tests/faults/test_kill.py."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from gnn_encoder.base.tables import QUERIES
from gnn_encoder.dual_cross import generation as module
from gnn_encoder.dual_cross.generation import generate_queries, sampling, write_queries
from gnn_encoder.dual_cross.generator import QueryGenerator
from gnn_encoder.text.tokens import TextTokens, single_batch

LENGTH = 24


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW", 5)


def generate(model: QueryGenerator, passages: TextTokens, table: Path, folder: Path, batch_tokens: int = 50) -> Path:
    folder.mkdir(exist_ok=True)
    how = sampling(model, seed=11, views=3, top_k=6, query_length=12)
    target = folder / "queries.parquet"
    generate_queries(
        model, passages, table, target, folder / "parts", how, passage_length=LENGTH, batch_tokens=batch_tokens
    )
    return target


def test_rows_are_views_of_passages(
    model: QueryGenerator, passages: TextTokens, passages_table: Path, tmp_path: Path
) -> None:
    table = pq.read_table(generate(model, passages, passages_table, tmp_path / "out"))
    assert table.schema.equals(QUERIES) and table.num_rows == 69
    assert table.column("qid").to_pylist() == [f"{row // 3}-{row % 3}" for row in range(69)]
    assert table.column("answers").to_pylist() == [[]] * 69
    texts = table.column("text").to_pylist()
    how = sampling(model, seed=11, views=3, top_k=6, query_length=12)
    for row in (0, 7, 22):
        batch = single_batch(passages, np.array([row]), model.template, LENGTH)
        tokens = write_queries(model, batch, torch.tensor([row]), how, batch_tokens=99)[0]
        assert texts[3 * row : 3 * row + 3] == [
            " ".join(model.tokenizer.decode(query, skip_special_tokens=True).split()) for query in tokens
        ]
    assert all(texts) and len(set(texts)) > 40
