"""The table of queries: its rows, its ids, and the same bytes after an interruption."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from gnn_encoder.core.records import QUERIES
from gnn_encoder.dual_cross import generation as module
from gnn_encoder.dual_cross.decoding import write_queries
from gnn_encoder.dual_cross.generation import generate_queries, sampling
from gnn_encoder.dual_cross.model import QueryGenerator
from gnn_encoder.encoding.tokens import TextTokens, single_batch

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


def test_resumes(
    model: QueryGenerator, passages: TextTokens, passages_table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = generate(model, passages, passages_table, tmp_path / "whole").read_bytes()
    written = fail_after(monkeypatch, passages=12)
    with pytest.raises(KeyboardInterrupt):
        generate(model, passages, passages_table, tmp_path / "part")
    assert sorted(path.name for path in (tmp_path / "part" / "parts").iterdir()) == [
        "part-000000.parquet",
        "part-000001.parquet",
    ]
    assert not (tmp_path / "part" / "queries.parquet").exists()
    written = fail_after(monkeypatch, passages=99)
    assert generate(model, passages, passages_table, tmp_path / "part").read_bytes() == whole
    assert sorted(written) == list(range(10, 23))


def fail_after(monkeypatch: pytest.MonkeyPatch, passages: int) -> list[int]:
    """The run is killed when it comes to more than so many passages; returns those it wrote about."""
    written: list[int] = []

    def write(model: Any, batch: Any, numbers: torch.Tensor, how: Any, *, batch_tokens: int) -> torch.Tensor:
        if len(written) + len(numbers) > passages:
            raise KeyboardInterrupt
        written.extend(numbers.tolist())
        return write_queries(model, batch, numbers, how, batch_tokens=batch_tokens)

    monkeypatch.setattr(module, "write_queries", write)
    return written
