"""Two processes find what one finds with the whole batch."""

from pathlib import Path

import numpy as np
import pytest
import torch

from gnn_encoder.base import distributed
from gnn_encoder.base.errors import UserError
from gnn_encoder.text.tokens import open_tokens
from gnn_encoder.train.examples import BatchSampler, local_share

from ..pipelines import Project
from ..texts import text, write_queries
from . import two_ranks
from .conftest import tiny_encoder


def test_two_equal_one(tables: Path, tiny_model: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    encoder = tiny_encoder(tiny_model, shared=False, pair_length=20).float()
    encoder.save(tmp_path / "encoder")
    write_queries(tmp_path / "generated.parquet", [text(40 + i, 1 + (i * 5) % 9) for i in range(36)])
    for name, table in (("queries", tmp_path / "generated.parquet"), ("passages", tables / "passages.parquet")):
        tokens = open_tokens(table, encoder.tokenizer, tmp_path, 32)
        (tmp_path / name).symlink_to(Path(tokens.ids.filename).parent)
    Project(tmp_path, environment).two_ranks(two_ranks.__file__, str(tmp_path))
    alone = two_ranks.work(tmp_path)
    assert alone["unused"] == [None] and alone["pool"][:, 0].tolist() == [row / 8 for row in range(5)]
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        for (loss, gradients), (expected, wanted) in zip(found["steps"], alone["steps"], strict=True):
            assert loss == pytest.approx(expected, abs=1e-6)
            for one, other in zip(gradients, wanted, strict=True):
                torch.testing.assert_close(one, torch.zeros_like(one) if other is None else other, rtol=1e-4, atol=1e-6)
        assert found["started"].tolist() == [[0, 0]], "all start from the first's weights"
        assert found["unused"][0].tolist() == [0, 0], "which no process used"
        assert found["pool"][:, 0].tolist() == [0, 1 / 8, 1 + 2 / 8, 1 + 3 / 8, 4 / 8], "windows in turn"


def test_a_batch_smaller_than_the_group_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "world_size", lambda: 4)
    parts = []
    for rank in range(4):
        monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
        parts.append(local_share(np.arange(9)).tolist())
    assert parts == [[0, 1, 2], [3, 4], [5, 6], [7, 8]]
    BatchSampler(9, 5, seed=0)
    with pytest.raises(UserError, match="a batch of 3 queries is too small for 4 processes; raise"):
        BatchSampler(9, 3, seed=0)
